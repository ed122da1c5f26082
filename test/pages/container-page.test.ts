/** The page of a container request: its layers, its configuration, its state. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { imageOf, path } from '../corpus/image.ts';
import { layerOf } from '../corpus/layer.ts';
import { Pusher } from '../corpus/push.ts';
import { eventually } from '../world/eventually.ts';
import { type Registry, startRegistry } from '../world/registry.ts';
import { type ContainerResponse, type Sluice, startSluice } from '../world/sluice.ts';
import { checkLooks, startBrowser, type TestBrowser } from './browser-world.ts';

const asBrowser = { accept: 'text/html,*/*;q=0.8' };
const hostile = `<script>alert(1)</script>"'&\u0007\u202egnp.exe${'x'.repeat(10_000)}`;
let browser: TestBrowser;
let registry: Registry;
let sluice: Sluice;
let response: ContainerResponse;

before(async () => {
  [browser, registry] = await Promise.all([startBrowser(), startRegistry()]);
  const config = {
    accounts: { admin: 'open sesame' },
    registries: { [registry.host]: { plainHttp: true } },
    rightLife: '1s',
  };
  sluice = await startSluice({ config });
  await pushImages();
  response = await sluice.request({
    containerImage: `${registry.host}/team/tools:1.0`,
    containerConfig: {
      env: ['EDITOR=vim', 'LANG=de_DE.UTF-8', `HOSTILE=${hostile}`],
      workingDir: '/work',
      layers: [await inlineLayer('/opt/added.txt', randomBytes(60_000).toString('base64'))],
    },
  });
});
after(async () => {
  await browser?.[Symbol.asyncDispose]();
  await sluice?.stop();
  await registry?.stop();
});

async function pushImages(): Promise<void> {
  const text = (size: number) =>
    Array.from({ length: size }, (_, at) =>
      String.fromCharCode(33 + ((at * at * 7919 + (at >> 3) * 104729) % 90)),
    ).join('');
  const layers = await Promise.all(
    [90_000, 30_000, 2000].map(size => layerOf([{ name: `file-${size}`, content: text(size) }])),
  );
  const image = imageOf({
    layers,
    run: {
      Env: [path, 'LANG=C', 'HOME=/root'],
      Cmd: ['/bin/sh'],
      Labels: { 'org.opencontainers.image.title': 'Tools', [hostile]: hostile },
    },
    config: usual => ({
      ...usual,
      history: layers.map((_, at) => ({ created_by: at === 2 ? hostile : `COPY part-${at} /` })),
    }),
  });
  const many = imageOf({
    layers: Array.from({ length: 120 }, (_, at) => layers[at % 3]).flatMap(layer => layer ?? []),
  });
  const pusher = await Pusher.open(registry, 'team/tools');
  await pusher.push(image, '1.0');
  await pusher.push(many, 'many');
  await pusher.close();
  const gone = await Pusher.open(registry, 'team/gone');
  await gone.push(image, '1.0');
  await gone.close();
}

async function inlineLayer(name: string, content: string): Promise<object> {
  const { content: layer, diffId } = await layerOf([{ name: name.slice(1), content }]);
  const bytes = Buffer.concat([...layer.read()]);
  return {
    location: `data:${bytes.toString('base64')}`,
    ...{ gzipDigest: layer.digest, gzipSize: layer.size, tarDigest: diffId },
  };
}

const addressOf = ({ containerToken }: ContainerResponse) => `/view/containers/${containerToken}`;
const pageOf = async (of: ContainerResponse, query = '') => {
  let [status, text] = [0, ''];
  // A page does not wait long for a registry.
  await eventually('the registry has answered', async () => {
    const page = await sluice.fetch(addressOf(of) + query, { headers: asBrowser });
    [status, text] = [page.status, await page.text()];
    return !text.includes(' data-late');
  });
  return { status, text };
};

test('a container can be looked at, at every width, light and dark', async () => {
  await checkLooks(browser, sluice.url + addressOf(response), 'container', async page => {
    for (const summary of await page.locator('summary').all()) await summary.click();
  });
});

test('the page shows each layer with its origin and its size', async () => {
  await using tab = await browser.open();
  const { page } = tab;
  await page.goto(sluice.url + addressOf(response));
  assert.equal(await page.locator('.copy pre.name').innerText(), response.targetImage);
  await page.locator('svg.stack .slab').nth(3).waitFor();
  assert.equal(await page.locator('svg.stack .slab').count(), 4);
  await page.getByText('The layers as a table').click();
  const rows = page.locator('details.table tbody tr');
  const origins = await rows.locator('td:nth-child(2)').allInnerTexts();
  assert.deepEqual(origins, ['injected', 'base', 'base', 'base']);
  assert.match(await rows.last().innerText(), /COPY part-0/);
});

test('the page shows what the request changes in the configuration', async () => {
  await using tab = await browser.open({ javaScript: false });
  const { page } = tab;
  await page.goto(sluice.url + addressOf(response));
  const row = (name: string) => page.getByRole('row', { name: new RegExp(`^${name} `) });
  assert.match(await row('LANG').innerText(), /changed\s+C\s+de_DE\.UTF-8/);
  assert.match(await row('EDITOR').innerText(), /added\s+none\s+vim/);
  assert.match(await row('Working directory').innerText(), /added\s+none\s+\/work/);
  assert.equal(await page.getByText('HOME', { exact: true }).isVisible(), false);
});

test('hostile texts of an image and of a request are text', async () => {
  await using tab = await browser.open();
  await tab.page.goto(sluice.url + addressOf(response));
  const { text } = await pageOf(response);
  assert.doesNotMatch(text, /<script>alert/);
  assert.ok(!text.includes('\u0007') && !text.includes('\u202e'));
  assert.match(
    text,
    /&lt;script&gt;alert\(1\)&lt;\/script&gt;&quot;&#39;&amp;\\u\{7\}\\u\{202e\}gnp/,
  );
  assert.ok(text.length < 60_000, `${text.length} characters`);
});

test('a program gets the same details as JSON as before', async () => {
  const redirect = await sluice.fetch(addressOf(response), { redirect: 'manual' });
  assert.equal(redirect.status, 303);
  assert.equal(redirect.headers.get('location'), `/v1alpha2/container/${response.containerToken}`);
});

test('the address of earlier pages leads to the page', async () => {
  const old = await sluice.fetch(`/view/asked/${response.containerToken}`, { redirect: 'manual' });
  assert.equal(old.status, 303);
  assert.equal(old.headers.get('location'), addressOf(response));
});

test('an image of many layers is a picture of few slabs, and a table of all', async () => {
  const many = await sluice.request({ containerImage: `${registry.host}/team/tools:many` });
  const { text } = await pageOf(many);
  const slabs = text.match(/class="slab base" y=/g)?.length ?? 0;
  assert.ok(slabs > 0 && slabs <= 80, `${slabs} slabs`);
  assert.match(text, /<p>120 layers, /);
});

test('an unknown token is not found, and its page is not kept', async () => {
  const unknown = await sluice.fetch(`/view/containers/${'a'.repeat(32)}`, { headers: asBrowser });
  assert.equal(unknown.status, 404);
  assert.match(await unknown.text(), /Unknown container token/);
});

test('a single image is shown for any platform: there is no choice', async () => {
  const { status, text } = await pageOf(response, '?platform=linux/s390x');
  assert.equal(status, 200);
  assert.match(text, /class="stack"/);
});

test('an image that its registry no longer gives is reported, with the details of the request', async () => {
  const gone = await sluice.request({ containerImage: `${registry.host}/team/gone:1.0` });
  const repositories = 'data/docker/registry/v2/repositories';
  await rm(join(registry.directory, repositories, 'team/gone'), { recursive: true });
  let text = '';
  for (const end = Date.now() + 20_000; Date.now() < end && !text.includes('class="failure"'); ) {
    ({ text } = await pageOf(gone));
  }
  assert.match(text, /<p class="failure">[^<]*team\/gone/);
  assert.match(text, /<dt>Requested<\/dt>/);
});

test('an administrator ends a container on its page, and nobody else is offered that', async () => {
  const mine = await sluice.request({ containerImage: `${registry.host}/team/tools:1.0` });
  assert.doesNotMatch((await pageOf(mine)).text, /End this container/);
  const refused = await sluice.fetch(`${addressOf(mine)}/end`, {
    ...{ method: 'POST', headers: asBrowser, body: new URLSearchParams() },
  });
  assert.equal(refused.status, 401);
  await using tab = await browser.open({
    headers: { authorization: `Basic ${btoa('admin:open sesame')}` },
  });
  await tab.page.goto(sluice.url + addressOf(mine));
  await tab.page.getByRole('button', { name: 'End this container' }).click();
  await tab.page.locator('#state').getByText('Ended').waitFor();
  assert.equal((await fetch(sluice.at(mine.targetImage, 'manifests/1.0'))).status, 404);
});

test('an ended container says when it ended, and shows no commands', async () => {
  const ended = await sluice.request({ containerImage: `${registry.host}/team/tools:1.0` });
  await sluice.fetch(`/container-token/${ended.containerToken}`, {
    method: 'DELETE',
    headers: { authorization: `Basic ${btoa('admin:open sesame')}` },
  });
  const { status, text } = await pageOf(ended);
  assert.equal(status, 200);
  assert.match(text, /Ended<\/span> The name ended at <time/);
  assert.doesNotMatch(text, /docker run|class="stack"/);
});
