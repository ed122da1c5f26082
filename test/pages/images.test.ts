/** The page about an image: what any image is made of. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { type Pushed, pushCorpus } from '../corpus/corpus.ts';
import { imageOf } from '../corpus/image.ts';
import { layerOf } from '../corpus/layer.ts';
import { Pusher } from '../corpus/push.ts';
import { type Registry, startRegistry } from '../world/registry.ts';
import { type Sluice, startSluice } from '../world/sluice.ts';
import { checkLooks, startBrowser, type TestBrowser } from './browser-world.ts';

const asBrowser = { accept: 'text/html' };
const hostile = `<script>alert(1)</script>"'\u202e\u0007&${'x'.repeat(10_000)}`;
let browser: TestBrowser;
let registry: Registry;
let sluice: Sluice;
let images: Map<string, Pushed>;
const pageOf = (image: string, more = '') =>
  `/view/inspect?image=${encodeURIComponent(image)}${more}`;
const named = (name: string) => images.get(name)?.reference ?? '';
async function read(path: string, status = 200): Promise<string> {
  const response = await sluice.fetch(path, { headers: asBrowser });
  const text = await response.text();
  assert.equal(response.status, status, text);
  return text;
}

before(async () => {
  [browser, registry] = await Promise.all([startBrowser(), startRegistry()]);
  images = await pushCorpus(registry, [
    'cfg:full',
    'attest:latest',
    'multi',
    'artifact',
    'odd:foreign',
  ]);
  const pusher = await Pusher.open(registry, 'corpus/hostile');
  const image = imageOf({
    layers: [await layerOf([{ name: 'a', content: 'a' }])],
    run: {
      Env: [`A=${hostile}`, 'B'],
      Cmd: [hostile],
      User: hostile,
      WorkingDir: hostile,
      Labels: { [hostile]: hostile, home: 'javascript:alert(1)', site: 'https://example.org/' },
      ExposedPorts: { [hostile]: {} },
    },
    config: usual => ({
      ...usual,
      history: [
        { created_by: hostile, comment: hostile, created: hostile },
        { created_by: 'ENV A=1', empty_layer: true },
        'not a step',
      ],
    }),
    manifest: usual => ({ ...usual, annotations: { [hostile]: hostile } }),
  });
  await pusher.push(image, 'latest');
  await pusher.close();
  sluice = await startSluice({ config: { registries: { [registry.host]: { plainHttp: true } } } });
});
after(async () => {
  await browser?.[Symbol.asyncDispose]();
  await sluice?.stop();
  await registry?.stop();
});

test('an image is requested by a form and shown at every width, light and dark', async () => {
  await using tab = await browser.open({ javaScript: false });
  await tab.page.goto(`${sluice.url}/view/inspect`);
  await tab.page.getByLabel('Image').fill(named('attest:latest'));
  await tab.page.getByRole('button', { name: 'Look into it' }).click();
  await tab.page.getByRole('heading', { name: 'History and layers' }).waitFor();
  assert.equal(await tab.page.locator('table.layers tbody tr').count(), 1);
  await checkLooks(browser, `${sluice.url}/view/inspect`, 'inspect-empty');
  await checkLooks(browser, sluice.url + pageOf(named('cfg:full')), 'inspect-image');
});

test('the platforms of an index are links, and the first view is amd64', async () => {
  const image = named('attest:latest');
  const text = await read(pageOf(image));
  assert.match(text, /aria-current="true">linux\/amd64</);
  assert.match(text, />linux\/arm64\/v8</);
  assert.doesNotMatch(text, /unknown\/unknown/);
  const arm = await read(pageOf(image, '&platform=linux/arm64/v8'));
  assert.match(arm, /aria-current="true">linux\/arm64\/v8</);
  assert.match(await read(pageOf(image, '&platform=plan9/mips'), 400), /it has: linux\/amd64/);
});

test('attestations of a build are listed with what they are', async () => {
  const text = await read(pageOf(named('attest:latest')));
  assert.match(text, /<td>Provenance<\/td><td><code>https:\/\/slsa\.dev\/provenance\/v0\.2/);
});

test('an artifact is shown with its files', async () => {
  const name = [...images.keys()].find(key => key.startsWith('artifact:')) ?? '';
  assert.match(await read(pageOf(named(name))), /This is an artifact, not a container image/);
});

test('texts of an image are shown as texts', async () => {
  const address = pageOf(`${registry.host}/corpus/hostile:latest`);
  const text = await read(address);
  assert.doesNotMatch(text, /<script>alert|href="javascript/);
  assert.match(text, /&lt;script&gt;alert\(1\)/);
  assert.ok(!text.includes('\u202e') && !text.includes('\u0007'));
  assert.match(text, /\\u\{202e\}/);
  assert.match(text, /href="https:\/\/example\.org\/"/);
  assert.ok(text.length < 100_000);
  assert.match(text, /no layer/);
  await checkLooks(browser, sluice.url + address, 'inspect-hostile');
});

test('long texts unfold, and the page stays small whatever an image has', async () => {
  const long = '<&\u202e '.repeat(700);
  const pusher = await Pusher.open(registry, 'corpus/long');
  const large = imageOf({
    layers: [await layerOf([{ name: 'a', content: 'a' }])],
    run: {
      Env: Array.from({ length: 200 }, (_, at) => `V${at}=${long}`),
      Cmd: ['/bin/sh', '-c', long],
      Entrypoint: [long],
      Labels: Object.fromEntries(Array.from({ length: 200 }, (_, at) => [`l${at}`, long])),
    },
    config: usual => ({
      ...usual,
      history: Array.from({ length: 200 }, () => ({ created_by: long, empty_layer: true })),
    }),
  });
  await pusher.push(large, 'latest');
  await pusher.close();
  const address = pageOf(`${registry.host}/corpus/long:latest`);
  const text = await read(address);
  assert.ok(Buffer.byteLength(text) < 100_000, `${Buffer.byteLength(text)} bytes`);
  assert.match(text, /\d+ more are not shown/);
  const { containerToken } = await sluice.request({
    containerImage: `${registry.host}/corpus/long:latest`,
  });
  const container = await read(`/view/containers/${containerToken}`);
  assert.ok(Buffer.byteLength(container) < 100_000, `${Buffer.byteLength(container)} bytes`);

  await using tab = await browser.open({ javaScript: false });
  await tab.page.goto(sluice.url + address);
  const entrypoint = tab.page.locator('details.fold').first();
  const height = async () => (await entrypoint.boundingBox())?.height ?? 0;
  const folded = await height();
  await entrypoint.locator('summary').press('Enter');
  assert.ok((await height()) > 2 * folded);
});

test('an image that does not exist is a page that says so', async () => {
  assert.match(await read(pageOf(`${registry.host}/corpus/none:1`), 404), /class="failure"/);
  await read(pageOf('<script>'), 400);
});
