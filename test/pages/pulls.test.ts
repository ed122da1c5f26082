/** Pulls as people see them: of a container, of a hosted image, and of all images for operators. */
import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import { imageOf } from '../corpus/image.ts';
import { layerOf } from '../corpus/layer.ts';
import { Pusher } from '../corpus/push.ts';
import { basic, Repository } from '../hosted/push-client.ts';
import { accounts } from '../integration/hosted.ts';
import { type Registry, startRegistry } from '../world/registry.ts';
import { type Sluice, startSluice } from '../world/sluice.ts';
import { makeTempDir, type TempDir } from '../world/temp-dir.ts';
import { checkLooks, startBrowser, type TestBrowser } from './browser-world.ts';
import { pageText } from './page-text.ts';

const page = { accept: 'text/html,*/*;q=0.8' };
const admin = basic('admin', 'secret');
const reader = basic('reader', 'read');
const token = /[a-z2-7]{32}/;

suite('pulls', { concurrency: 1 }, () => {
  let registry: Registry;
  let directory: TempDir;
  let sluice: Sluice;
  let browser: TestBrowser;
  const start = (port?: number) =>
    startSluice({
      ...(port === undefined ? {} : { port }),
      data: directory.join('data'),
      config: {
        accounts,
        trustedProxies: 1,
        registries: { [registry.host]: { plainHttp: true } },
      },
    });

  before(async () => {
    [browser, registry] = await Promise.all([startBrowser(), startRegistry()]);
    directory = await makeTempDir('pulls-page');
    sluice = await start();
    const image = imageOf({ layers: [await layerOf([{ name: 'a', content: 'a' }])] });
    await (await Pusher.open(registry, 'tools/app')).push(image, '1');
  });
  after(async () => {
    await browser?.[Symbol.asyncDispose]();
    await sluice?.stop();
    await registry?.stop();
    await directory?.remove();
  });

  const textOf = (path: string, headers: Record<string, string> = admin) =>
    pageText(sluice, path, headers);
  /** Gets a manifest, as the client behind a proxy. */
  const get = async (url: string, client: string, method = 'GET', headers = {}) => {
    const response = await fetch(url, {
      method,
      headers: { 'x-forwarded-for': client, accept: '*/*', ...headers },
    });
    assert.equal(response.status, 200, url);
    await response.arrayBuffer();
    return response.headers.get('docker-content-digest') ?? '';
  };

  test('a container shows its pulls by day, each client once, also after a restart', async () => {
    const { targetImage } = await sluice.request({
      containerImage: `${registry.host}/tools/app:1`,
    });
    const [own = ''] = token.exec(targetImage) ?? [];
    const path = `/view/containers/${own}`;
    assert.match(await textOf(path, {}), /Nobody has pulled it yet/);
    for (const client of ['10.0.0.1', '10.0.0.1', '10.0.0.2']) {
      await get(sluice.at(targetImage, 'manifests/1'), client, 'HEAD');
      await get(sluice.at(targetImage, 'manifests/1'), client);
    }
    assert.match(await textOf(path, {}), /<strong>2<\/strong> in the last 30 days/);
    await sluice.stop();
    sluice = await start(sluice.port);
    assert.match(await textOf(path, {}), /<strong>2<\/strong> in the last 30 days/);
    await checkLooks(browser, sluice.url + path, 'container-pulls');
  });

  test('a hosted image shows the pulls of its tag; a moved tag leaves an untagged image', async () => {
    const repository = new Repository(sluice, 'team/app');
    const manifests = `${repository.url}/manifests`;
    const one = await repository.pushImage('1', [Buffer.from('one')]);
    const other = await repository.pushImage('2', [Buffer.from('two')]);
    const auth = { ...reader };
    // As docker: the digest of the tag, then the manifest by digest. A second client that looks only pulls nothing.
    assert.equal(await get(`${manifests}/1`, '10.0.0.1', 'HEAD', auth), one);
    await get(`${manifests}/${one}`, '10.0.0.1', 'GET', auth);
    await get(`${manifests}/${one}`, '10.0.0.1', 'GET', auth);
    await get(`${manifests}/1`, '10.0.0.3', 'HEAD', auth);
    // As crane: the tag at once.
    await get(`${manifests}/1`, '10.0.0.2', 'GET', auth);
    const path = '/view/repositories/content?name=team/app';
    const rowOf = async (name: string, headers = reader) => {
      const rows = (await textOf(path, headers)).split('<tr>');
      return rows.find(row => row.includes(`>${name}</code>`)) ?? assert.fail(`no row ${name}`);
    };
    assert.match(await rowOf('1'), /<td class="number">2<\/td><td><time/);
    assert.match(await rowOf('2'), /<td class="number">0<\/td><td>–<\/td>/);
    assert.match(await textOf('/view/repositories', reader), /<td class="number">2<\/td><td><time/);

    await repository.pushImage('1', [Buffer.from('three')]);
    assert.doesNotMatch(await textOf(path, reader), /Untagged/);
    const [, untagged = ''] = (await textOf(path)).split('id="untagged"');
    assert.ok(untagged.includes(one));
    assert.ok(!untagged.includes(other));
    assert.match(untagged, /<td class="number">2<\/td><td><time/);
    await using tab = await browser.open({ headers: admin });
    await tab.page.goto(sluice.url + path);
    await tab.page.getByRole('link', { name: `Delete ${one}` }).click();
    await tab.page.getByRole('button', { name: 'Delete this image' }).click();
    await tab.page.getByRole('status').getByText(`Deleted ${one}`).waitFor();
    assert.doesNotMatch(await textOf(path), /Untagged/);
    await repository.pushImage('1', [Buffer.from('four')]);
    const asAdmin = { ...browser, open: (view = {}) => browser.open({ ...view, headers: admin }) };
    await checkLooks(asAdmin, sluice.url + path, 'repository-pulls');
  });

  test('a client that looks at two tags of one digest, and then gets it twice, pulls both tags', async () => {
    const repository = new Repository(sluice, 'team/tags');
    const manifests = `${repository.url}/manifests`;
    const digest = await repository.pushImage('a', [Buffer.from('tags')]);
    // This counts, too.
    const { body } = await repository.get('manifests/a');
    const type = { 'content-type': 'application/vnd.oci.image.manifest.v1+json' };
    assert.equal((await repository.send('PUT', 'manifests/b', body, type)).status, 201);
    const client = '10.0.0.9';
    for (const tag of ['a', 'b']) await get(`${manifests}/${tag}`, client, 'HEAD', reader);
    for (let at = 0; at < 3; at += 1) await get(`${manifests}/${digest}`, client, 'GET', reader);
    const path = '/view/repositories/content?name=team/tags';
    const text = await textOf(path, reader);
    const counts = ['a', 'b'].map(
      tag =>
        new RegExp(`>${tag}</code>.*?<td class="number">(\\d+)</td><td><time`, 's').exec(text)?.[1],
    );
    assert.deepEqual(counts, ['2', '1']);
    assert.match(text, /3 pulls in the last 30 days/);
  });

  test('the next owner of the name of a deleted repository sees no pulls of it', async () => {
    const repository = new Repository(sluice, 'team/old');
    const digest = await repository.pushImage('1', [Buffer.from('old')]);
    const neighbour = new Repository(sluice, 'team/old-2');
    await neighbour.pushImage('1', [Buffer.from('neighbour')]);
    await get(`${repository.url}/manifests/1`, '10.0.0.1', 'GET', reader);
    await get(`${neighbour.url}/manifests/1`, '10.0.0.1', 'GET', reader);
    const path = '/view/repositories/content?name=team/old';
    assert.match(await textOf(path, reader), /1 pull in the last 30 days/);
    assert.equal((await repository.send('DELETE', `manifests/${digest}`)).status, 202);
    await repository.pushImage('1', [Buffer.from('old')]);
    assert.doesNotMatch(await textOf(path, reader), /1 pull in|<time/);
    assert.match(await textOf(`${path}-2`, reader), /1 pull in the last 30 days/);
  });

  test('a container of a hosted image counts as a pull of that image', async () => {
    const repository = new Repository(sluice, 'public/base');
    await repository.pushImage('1', [Buffer.from('base')]);
    const { host } = new URL(sluice.url);
    const { targetImage } = await sluice.request({ containerImage: `${host}/public/base:1` });
    await get(sluice.at(targetImage, 'manifests/1'), '10.0.0.1');
    const text = await textOf('/view/repositories/content?name=public/base', {});
    assert.match(text, /1 pull in the last 30 days/);
  });

  test('operators see which images are pulled, as a table and as a file', async () => {
    const text = await textOf('/view/usage/pulls');
    assert.ok(text.includes(`${registry.host}/tools/app`));
    assert.ok(text.includes(`${new URL(sluice.url).host}/team/app`));
    const csv = await textOf('/view/usage/pulled-images.csv');
    assert.ok(csv.includes(`${registry.host}/tools/app,2,`), csv);
    const figures = (headers = {}) => sluice.fetch('/v1alpha1/figures/pulled-images', { headers });
    const { counts } = (await (await figures(admin)).json()) as { counts: object[] };
    assert.deepEqual(
      counts.find(one => 'name' in one && one.name === `${registry.host}/tools/app`),
      {
        name: `${registry.host}/tools/app`,
        labels: { image: `${registry.host}/tools/app` },
        count: 2,
      },
    );
    assert.equal((await figures()).status, 401);
    assert.equal((await figures(reader)).status, 403);
    const unknown = await sluice.fetch('/v1alpha1/figures/unknown', { headers: admin });
    assert.equal(unknown.status, 400);
    const anonymous = await sluice.fetch('/view/usage/pulls', { headers: page });
    assert.equal(anonymous.status, 401);
    const asAdmin = { ...browser, open: (view = {}) => browser.open({ ...view, headers: admin }) };
    await checkLooks(asAdmin, `${sluice.url}/view/usage/pulls`, 'usage-pulls');
  });
});
