/** Pages of hosted repositories with hostile names in their addresses, and hostile texts in what was pushed. */
import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import { digestOf } from '../../src/oci/digest.ts';
import { administered, expect, manifestType, Repository } from '../hosted/push-client.ts';
import { type Sluice, startSluice } from '../world/sluice.ts';
import { startBrowser, type TestBrowser } from './browser-world.ts';
import { hostileText, hostileTexts } from './hostile-world.ts';

const authorization = `Basic ${btoa('admin:secret')}`;
const indexType = 'application/vnd.oci.image.index.v1+json';
const configType = 'application/vnd.oci.image.config.v1+json';
const longestTag = `T${'-'.repeat(125)}._`;
const deepName = Array.from({ length: 60 }, () => 'a-b').join('/');
const long = `<i>${'x'.repeat(10_000)}`;

suite('hostile repositories', { concurrency: 1 }, () => {
  let sluice: Sluice;
  let browser: TestBrowser;
  let image: string;

  before(async () => {
    [browser, sluice] = await Promise.all([startBrowser(), startSluice({ config: administered })]);
    const repository = new Repository(sluice, 'team/app');
    image = await pushHostile(repository);
    await new Repository(sluice, deepName).pushImage(longestTag, [Buffer.from('layer')]);
    // A pull of each, so that they have figures.
    expect(await repository.get('manifests/index'), 200);
    expect(await new Repository(sluice, deepName).get(`manifests/${longestTag}`), 200);
  });
  after(async () => {
    await browser?.[Symbol.asyncDispose]();
    await sluice?.stop();
  });

  const open = async (path: string, values: Record<string, string>) => {
    const response = await sluice.fetch(`${path}?${new URLSearchParams(values)}`, {
      headers: { accept: 'text/html', authorization },
    });
    return { status: response.status, text: await response.text() };
  };
  const requireHarmless = (text: string, what: string) => {
    assert.doesNotMatch(text, /<script>alert|<[a-z]+ data-broken-out|<base/, what);
    assert.doesNotMatch(text, /href="(?:javascript|\/\/)/, what);
  };

  test('no text in an address breaks out of a page', async () => {
    const known = { name: 'team/app', reference: 'index' };
    const places = [
      ['/view/repositories', 'find'],
      ['/view/repositories', 'last'],
      ['/view/repositories/content', 'name'],
      ['/view/repositories/content', 'last'],
      ['/view/repositories/content', 'untagged'],
      ['/view/repositories/content', 'deleted'],
      ['/view/repositories/delete', 'name'],
      ['/view/repositories/delete', 'reference'],
    ] as const;
    for (const [path, member] of places) {
      for (const text of [...hostileTexts, long, '../../etc', 'a\r\nset-cookie: a=b', '%00']) {
        const what = `${path} ${member}=${text.slice(0, 50)}`;
        const response = await open(path, { ...known, [member]: text });
        assert.ok([200, 400, 404].includes(response.status), `${what}: ${response.status}`);
        requireHarmless(response.text, what);
      }
    }
  });

  test('platforms, types and annotations of pushed images are text', async () => {
    for (const [path, values] of [
      ['/view/repositories', {}],
      ['/view/repositories/content', { name: 'team/app' }],
      ['/view/repositories/delete', { name: 'team/app', reference: 'index' }],
      ['/view/repositories/delete', { name: 'team/app', reference: image }],
    ] as const) {
      const { status, text } = await open(path, values);
      assert.equal(status, 200, path);
      requireHarmless(text, path);
      for (const hidden of ['\u202e', '\u0007', '\u001b']) assert.ok(!text.includes(hidden), path);
      // A long text is cut.
      assert.ok(text.length < 100_000, `${path}: ${text.length} characters`);
    }
    const { text } = await open('/view/repositories/content', { name: 'team/app' });
    assert.match(text, /&lt;script&gt;alert\(1\)&lt;\/script&gt;/);
  });

  test('a page with hostile texts runs nothing, and long names fit on a phone', async () => {
    for (const name of ['team/app', deepName]) {
      await using tab = await browser.open({ width: 360, headers: { authorization } });
      const query = new URLSearchParams({ name });
      await tab.page.goto(`${sluice.url}/view/repositories/content?${query}`);
      for (const folded of await tab.page.locator('summary').all()) await folded.click();
      assert.equal(await tab.page.locator('[data-broken-out]').count(), 0);
      const width = await tab.page.evaluate('document.documentElement.scrollWidth');
      assert.ok(Number(width) <= 360, `${name.slice(0, 20)} is ${width} px wide`);
    }
    await using tab = await browser.open({ headers: { authorization } });
    await tab.page.goto(`${sluice.url}/view/repositories/content?name=${deepName}`);
    await tab.page.getByRole('link', { name: `Delete ${longestTag}` }).click();
    await tab.page.getByRole('button', { name: 'Delete this tag' }).waitFor();
  });
});

/** Pushes an image with a hostile config, an index of it under `index`, and an artifact that refers to both. */
async function pushHostile(repository: Repository): Promise<string> {
  const config = Buffer.from(
    JSON.stringify({
      ...{ os: hostileText, architecture: long, variant: hostileText },
      rootfs: { type: 'layers', diff_ids: [] },
    }),
  );
  const empty = Buffer.from('{}');
  for (const blob of [config, empty]) expect(await repository.pushBlob(blob), 201);
  const put = async (manifest: { readonly mediaType: string }, reference?: string) => {
    const bytes = Buffer.from(JSON.stringify({ schemaVersion: 2, ...manifest }));
    const digest = digestOf(bytes);
    const reply = await repository.send('PUT', `manifests/${reference ?? digest}`, bytes, {
      'content-type': manifest.mediaType,
    });
    expect(reply, 201);
    return { mediaType: manifest.mediaType, digest, size: bytes.length };
  };
  const describe = (mediaType: string, bytes: Buffer) => ({
    ...{ mediaType, digest: digestOf(bytes), size: bytes.length },
  });
  const image = await put(
    { mediaType: manifestType, ...{ config: describe(configType, config), layers: [] } },
    'image',
  );
  const index = await put(
    {
      mediaType: indexType,
      ...{
        manifests: hostileTexts.map((text, at) => ({
          ...image,
          platform: { os: text, architecture: `${at}${hostileText}`, variant: text },
          annotations: { [text]: text },
        })),
      },
    },
    'index',
  );
  for (const subject of [image, index]) {
    await put({
      mediaType: manifestType,
      ...{
        artifactType: 'application/vnd.example.note',
        config: describe('application/vnd.oci.empty.v1+json', empty),
        layers: [],
        subject,
        annotations: Object.fromEntries([...hostileTexts, long].map(text => [text, text])),
      },
    });
  }
  return image.digest;
}
