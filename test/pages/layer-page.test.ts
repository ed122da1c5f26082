/** The page about a layer: its files, what it changes, and what an image stores in vain. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { after, before, test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { contentOf } from '../corpus/content.ts';
import { type Image, imageOf } from '../corpus/image.ts';
import { type Entry, type Layer, layerOf, retyped, tarOf } from '../corpus/layer.ts';
import { Pusher } from '../corpus/push.ts';
import { eventually } from '../world/eventually.ts';
import { type Registry, startRegistry } from '../world/registry.ts';
import { type Sluice, startSluice } from '../world/sluice.ts';
import { checkLooks, startBrowser, type TestBrowser } from './browser-world.ts';
import { hostileTexts } from './hostile-world.ts';

const asBrowser = { accept: 'text/html' };
let browser: TestBrowser;
let registry: Registry;
let sluice: Sluice;
let pusher: Pusher;

const mega = (count: number, letter: string) => letter.repeat(count * 1_000_000);

/** A usual image: a base, an update of its packages, a cleaning, and a program. */
const lower: readonly Entry[] = [
  { name: 'bin/' },
  { name: 'bin/su', content: mega(1, 's'), mode: 0o4755 },
  { name: 'bin/sh', content: mega(2, 'h'), mode: 0o755 },
  { name: 'etc/' },
  { name: 'etc/passwd', content: 'root:x:0:0::/root:/bin/sh\n' },
  { name: 'etc/hosts', content: '127.0.0.1 localhost\n' },
  { name: 'var/cache/' },
  { name: 'var/cache/one', content: mega(3, '1') },
  { name: 'var/cache/deep/two', content: mega(1, '2') },
  { name: 'srv/data', content: mega(1, 'd') },
];
const upper: readonly Entry[] = [
  { name: 'bin/sh', content: mega(2, 'H'), mode: 0o755 },
  { name: 'bin/su', content: mega(1, 's'), mode: 0o755 },
  { name: 'etc/passwd', content: 'root:x:0:0::/root:/bin/sh\n' },
  { name: 'etc/hostname', content: 'new\n', uid: 1000 },
  { name: 'bin/ash', link: 'sh' },
  { name: 'bin/dash', hardLink: 'bin/sh' },
  { name: 'var/.wh.cache', content: '' },
  { name: 'srv/.wh..wh..opq', content: '' },
  { name: 'srv/fresh', content: mega(1, 'f') },
];
let usual: Image;

async function pushed(name: string, layers: readonly Layer[]): Promise<Image> {
  const image = imageOf({ layers });
  await pusher.push(image, name);
  return image;
}
const digestOf = (image: Image, at: number): string => {
  const { layers } = JSON.parse(Buffer.concat([...image.root.read()]).toString()) as {
    layers: { digest: string }[];
  };
  return layers[at]?.digest ?? '';
};
function pageOf(tag: string, image: Image, at: number, more: Record<string, string> = {}): string {
  const name = `${registry.host}/layers:${tag}`;
  const query = new URLSearchParams({ image: name, layer: digestOf(image, at), ...more });
  return `/view/inspect/layer?${query}`;
}
async function read(path: string, status = 200): Promise<string> {
  const response = await sluice.fetch(path, { headers: asBrowser });
  const text = await response.text();
  assert.equal(response.status, status, text);
  return text;
}
/** Reads a page when nothing of it is under way any more. */
async function readWhole(path: string): Promise<string> {
  let text = '';
  await eventually('the layers are read', async () => {
    text = await read(path);
    return !text.includes('data-moving');
  });
  return text;
}

before(async () => {
  [browser, registry] = await Promise.all([startBrowser(), startRegistry()]);
  pusher = await Pusher.open(registry, 'layers');
  usual = await pushed('usual', [await layerOf(lower), await layerOf(upper, 'zstd')]);
  sluice = await startSluice({ config: { registries: { [registry.host]: { plainHttp: true } } } });
});
after(async () => {
  await browser?.[Symbol.asyncDispose]();
  await sluice?.stop();
  await pusher?.close();
  await registry?.stop();
});

test('a person opens a layer of an image, and walks through its directories without JavaScript', async () => {
  await using tab = await browser.open({ javaScript: false });
  await tab.page.goto(
    `${sluice.url}/view/inspect?image=${encodeURIComponent(`${registry.host}/layers:usual`)}`,
  );
  await tab.page.getByRole('link', { name: 'Layer 1', exact: true }).click();
  // The page loads itself again until the layer has been read.
  const files = tab.page.getByRole('region', { name: 'Files', exact: true });
  await files.getByRole('link', { name: 'var/', exact: true }).click();
  await files.getByRole('link', { name: 'cache/', exact: true }).click();
  await files.getByRole('rowheader', { name: 'one', exact: true }).waitFor();
  assert.match(tab.page.url(), /path=var%2Fcache/);
  await tab.page.getByRole('navigation', { name: 'Directory' }).getByText('var').click();
  await files.getByRole('rowheader', { name: 'cache/' }).waitFor();
});

test('the page becomes complete by itself', async () => {
  await using tab = await browser.open();
  const image = await pushed('live', [await layerOf([{ name: 'live', content: mega(1, 'x') }])]);
  await tab.page.goto(sluice.url + pageOf('live', image, 0));
  await tab.page.getByRole('heading', { name: 'Wasted in this layer' }).waitFor();
});

test('a layer is compared with the layers below it', async () => {
  const text = await readWhole(pageOf('usual', usual, 1, { path: 'bin', sort: 'name' }));
  assert.match(rowOf(text, 'sh'), /2\.0 MB.*>changed</s);
  assert.match(rowOf(text, 'su'), /mode or owner.*rwxr-xr-x.*was <code>-rwsr-xr-x/s);
  assert.match(rowOf(text, 'ash'), /→ <bdi>sh<.*>added</s);
  assert.match(rowOf(text, 'dash'), /same file as <bdi>bin\/sh/);
  const etc = await read(pageOf('usual', usual, 1, { path: 'etc' }));
  assert.match(rowOf(etc, 'passwd'), /same again/);
  assert.match(rowOf(etc, 'hostname'), /added.*1000:1000/s);
  assert.doesNotMatch(etc, />hosts</);
  const removed = await read(pageOf('usual', usual, 1, { change: 'removed' }));
  assert.match(rowOf(removed, 'cache'), /−4\.0 MB.*−2/s);
  assert.match(rowOf(removed, 'data'), /−1\.0 MB/);
  assert.match(removed, /2 found in the whole layer/);
});

test('programs with setuid are marked and listed', async () => {
  const text = await readWhole(pageOf('usual', usual, 0, { path: 'bin' }));
  assert.match(rowOf(text, 'su'), /-rwsr-xr-x<\/code> <span class="badge wait">setuid/);
  assert.match(text, /Programs with extra rights.*\/bin\/su/s);
});

test('what later layers replace or remove is wasted', async () => {
  const text = await readWhole(pageOf('usual', usual, 0));
  // sh, su, passwd, one, two and data.
  assert.match(text, /8\.0 MB of 8\.0 MB, 100 %: later layers replace or remove these files/);
  assert.match(text, /Wasted in the whole image.*8\.0 MB of 12 MB unpacked, 67 %/s);
  assert.match(text, /\/var\/cache\/one/);
});

test('names are searched in the whole layer, and sorted', async () => {
  const text = await readWhole(pageOf('usual', usual, 0, { name: 'O' }));
  assert.deepEqual(namesIn(text), ['one', 'two', 'hosts']);
  assert.match(rowOf(text, 'two'), /in <a [^>]*><bdi>\/var\/cache\/deep</);
  const sorted = await read(pageOf('usual', usual, 0, { name: 'o', sort: 'name' }));
  assert.deepEqual(namesIn(sorted), ['hosts', 'one', 'two']);
  assert.match(
    await read(pageOf('usual', usual, 0, { name: 'nothing' })),
    /No file of the layer matches/,
  );
});

test('a layer is readable at every width, light and dark', async () => {
  const url = sluice.url + pageOf('usual', usual, 1);
  await readWhole(pageOf('usual', usual, 1));
  await checkLooks(browser, url, 'layer');
  await checkLooks(browser, `${url}&path=bin`, 'layer-directory');
});

test('a layer that cannot be read says why', async () => {
  const tar = await layerOf([{ name: 'a', content: 'a' }]);
  const foreign = retyped(tar, 'application/vnd.oci.image.layer.nondistributable.v1.tar+gzip');
  const sif = retyped(tar, 'application/vnd.sylabs.sif.layer.v1.sif');
  const type = 'application/vnd.oci.image.layer.v1.tar+gzip';
  const texts = (text: string | Buffer) => ({ ...tar, content: contentOf(type, text) });
  const cut = gzipSync(await tarOf([{ name: 'a', content: randomBytes(100_000) }]));
  for (const [tag, layer, sentence] of [
    ['foreign', foreign, /foreign layer: its manifest says/],
    ['sif', sif, /Singularity image, one file with a squashfs/],
    ['text', texts('x'.repeat(1000)), /it is not a tar archive, or is damaged/],
    ['cut', texts(cut.subarray(0, 50_000)), /its gzip data is damaged or cut short/],
    [
      'half',
      texts((await tarOf([{ name: 'a', content: 'a' }])).subarray(0, 512)),
      /ends in the middle/,
    ],
  ] as const) {
    const image = await pushed(tag, [layer]);
    assert.match(await readWhole(pageOf(tag, image, 0)), sentence);
  }
});

test('names in a layer are shown as texts', async () => {
  const names = [...hostileTexts, 'x'.repeat(1900), '..', '%41', 'caf\u00e9', 'a b+c&d=e?#'];
  const entries = names.flatMap((name, at) => {
    const flat = name.replaceAll('/', '\u2215');
    return [
      { name: `${flat}/${flat}`, content: `${at}` },
      { name: `link-${at}`, link: name },
    ];
  });
  const image = await pushed('hostile', [await layerOf(entries)]);
  await readWhole(pageOf('hostile', image, 0));
  await using tab = await browser.open();
  tab.page.on('dialog', () => assert.fail('a script ran'));
  await tab.page.goto(sluice.url + pageOf('hostile', image, 0));
  const links = tab.page.locator('table.files').first().locator('th[scope=row] > code > a');
  const addresses = await links.evaluateAll(all =>
    all.map(link => (link as { href?: string }).href),
  );
  assert.ok(addresses.length >= hostileTexts.length);
  for (const address of addresses) {
    await tab.page.goto(address ?? '');
    await tab.page.getByRole('navigation', { name: 'Directory' }).locator('strong').waitFor();
    assert.equal(await tab.page.locator('[data-broken-out]').count(), 0);
    assert.equal(await tab.page.locator('table.files').first().locator('tbody tr').count(), 1);
  }
  const text = await read(pageOf('hostile', image, 0));
  assert.ok(!text.includes('\u202e') && !text.includes('\u0007'));
  await checkLooks(browser, sluice.url + pageOf('hostile', image, 0), 'layer-hostile');
});

test('a layer that a request has added is opened from the page of the container', async () => {
  const own = gzipSync(await tarOf([{ name: 'opt/added', content: 'added by a request' }]));
  const served = await sluice.request({
    containerImage: `${registry.host}/layers:usual`,
    containerConfig: { layers: [{ location: `data:${own.toString('base64')}` }] },
  });
  await using tab = await browser.open();
  await tab.page.goto(`${sluice.url}/view/containers/${served.containerToken}`);
  await tab.page.getByText('The layers as a table').click();
  const table = tab.page.getByRole('region', { name: 'Layers', exact: true });
  await table.getByRole('link', { name: '3', exact: true }).click();
  const files = tab.page.getByRole('region', { name: 'Files', exact: true });
  await files.getByRole('link', { name: 'opt/', exact: true }).click();
  await files.getByRole('rowheader', { name: 'added', exact: true }).waitFor();
  await tab.page.getByRole('heading', { name: 'Wasted in the whole image' }).waitFor();
});

test('two equal layers of an image have a page each', async () => {
  const one = await layerOf([{ name: 'one', content: '1' }]);
  const gone = await layerOf([{ name: '.wh.one', content: '' }]);
  const image = await pushed('equal', [one, gone, one]);
  const name = `${registry.host}/layers:equal`;
  const text = await read(`/view/inspect?${new URLSearchParams({ image: name })}`);
  const links = [...text.matchAll(/href="(\/view\/inspect\/layer\?[^"]*)"/g)].map(([, href = '']) =>
    href.replaceAll('&amp;', '&'),
  );
  assert.equal(new Set(links).size, 3);
  const third = links.find(link => link.endsWith(encodeURIComponent('@3'))) ?? '';
  const found = await readWhole(third);
  assert.match(found, /Layer 3 of 3/);
  assert.doesNotMatch(found, /replace or remove these files/);
  assert.match(found, new RegExp(`href="${third.replaceAll('&', '&amp;').replaceAll('?', '\\?')}`));
  // The digest alone names the lowest one.
  assert.match(await readWhole(pageOf('equal', image, 0)), /replace or remove these files/);
  for (const wrong of ['@2', '@4', '@0', '@x', '@']) {
    const layer = `${digestOf(image, 0)}${wrong}`;
    await read(`/view/inspect/layer?${new URLSearchParams({ image: name, layer })}`, 404);
  }
});

test('a layer of another image is not shown', async () => {
  const other = await pushed('other', [await layerOf([{ name: 'other', content: 'o' }])]);
  assert.match(await read(pageOf('usual', other, 0), 404), /The image has no such layer/);
  await read(`/view/inspect/layer?image=${registry.host}/none:1&layer=${digestOf(other, 0)}`, 404);
});

function rowOf(text: string, name: string): string {
  const rows = text
    .split('<tr')
    .filter(row => new RegExp(`^[^>]*><th[^>]*><code>(<a [^>]*>|<del>)?<bdi>${name}<`).test(row));
  assert.equal(rows.length > 0, true, `no row of ${name} in ${text}`);
  return rows[0] ?? '';
}

function namesIn(text: string): string[] {
  const [, rest = ''] = text.split('id="files"');
  const [table = ''] = rest.split('</table>');
  return [...table.matchAll(/<th scope="row"><code>(?:<a [^>]*>)?<bdi>([^<]*)</g)].map(
    ([, name = '']) => name,
  );
}
