/** A layer of many files, other viewers, full disks and killed servers. */

import assert from 'node:assert/strict';
import { readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { gzipSync, zstdCompressSync } from 'node:zlib';
import { type Content, contentOf, sha256 } from '../corpus/content.ts';
import { imageOf } from '../corpus/image.ts';
import { type Layer, layerOf } from '../corpus/layer.ts';
import { Pusher } from '../corpus/push.ts';
import { sumOf } from '../sif/tar-file.ts';
import { eventually } from '../world/eventually.ts';
import { boundMs } from '../world/longest-block.ts';
import { newAccessToken } from '../world/platform-user.ts';
import { mainThreadMs } from '../world/processor-time.ts';
import { type Registry, startRegistry } from '../world/registry.ts';
import { type Sluice, startSluice } from '../world/sluice.ts';
import { makeTempDir } from '../world/temp-dir.ts';
import { startWatchedSluice } from '../world/watched-sluice.ts';
import { loadFirstView } from './page-files.ts';

const mostMs = 50;
const mostBytes = 100_000;
const asBrowser = { accept: 'text/html' };

async function pushed(
  registry: Registry,
  layers: readonly Layer[],
  gone: readonly Content[] = [],
): Promise<void> {
  const pusher = await Pusher.open(registry, 'large');
  await pusher.push({ ...imageOf({ layers }), gone }, 'latest');
  await pusher.close();
}

function pageOf(registry: Registry, layer: Layer | undefined, more = ''): string {
  const image = encodeURIComponent(`${registry.host}/large:latest`);
  return `/view/inspect/layer?image=${image}&layer=${layer?.content.digest}${more}`;
}

function configFor(...registries: readonly Registry[]): object {
  return {
    registries: Object.fromEntries(registries.map(({ host }) => [host, { plainHttp: true }])),
  };
}

async function read(sluice: Sluice, path: string, headers = {}): Promise<string> {
  return (await sluice.fetch(path, { headers: { ...asBrowser, ...headers } })).text();
}

async function readWhole(sluice: Sluice, path: string, headers = {}): Promise<string> {
  let text = '';
  await eventually('the layers are read', async () => {
    text = await read(sluice, path, headers);
    return !text.includes('data-moving');
  });
  return text;
}

/** A layer of many files, every tenth with a content. */
function manyFiles(count: number, content: string, compression: 'gzip' | 'zstd' = 'gzip'): Layer {
  const tar = Buffer.alloc((count + Math.ceil(count / 10) + 2) * 512);
  let at = 0;
  for (let number = 0; number < count; number += 1) {
    const name =
      number % 2 === 0
        ? `flat/file-${number}-${(number * 7919) % 104_729}`
        : `deep/${number % 97}/${number % 89}/name-${number}`;
    const body = number % 10 === 0 ? `${content} ${number}` : '';
    const octal = (value: number, digits: number) => value.toString(8).padStart(digits, '0');
    tar.write(name, at);
    tar.write(`${octal(0o644, 7)}\0${octal(number % 3, 7)}\0${octal(0, 7)}\0`, at + 100);
    tar.write(`${octal(body.length, 11)}\0${octal(0, 11)}\0        0`, at + 124);
    tar.write('ustar\x0000', at + 257);
    const sum = sumOf(tar.subarray(at, at + 512));
    tar.write(`${octal(sum, 6)}\0 `, at + 148);
    tar.write(body, at + 512);
    at += body === '' ? 512 : 1024;
  }
  const packed = compression === 'gzip' ? gzipSync(tar, { level: 1 }) : zstdCompressSync(tar);
  const type = `application/vnd.oci.image.layer.v1.tar+${compression}`;
  return { content: contentOf(type, packed), diffId: sha256(tar) };
}

test('a layer of 200,000 files is read beside all else, and shown at once', async t => {
  await using registry = await startRegistry();
  const layers = [manyFiles(200_000, 'first'), manyFiles(200_000, 'second', 'zstd')];
  await pushed(registry, layers);
  await using watched = await startWatchedSluice({ config: configFor(registry) });
  const { sluice } = watched;
  // The first pages load what every page needs.
  await read(sluice, '/view/inspect');
  await watched.turns();
  for (const [at, layer] of layers.entries()) {
    const text = await readWhole(sluice, pageOf(registry, layer));
    assert.match(text, />200,000</, `layer ${at + 1}`);
  }
  const { longestMs: reading } = await watched.turns();
  assert.ok(reading < boundMs(mostMs), `${reading} ms while the layers are read`);

  for (const more of [
    '',
    '&path=flat',
    '&path=flat&sort=name',
    '&path=flat&page=900',
    '&path=deep/5/7',
  ]) {
    const times: number[] = [];
    for (let time = 0; time < 5; time += 1) {
      const before = mainThreadMs(sluice.process.pid);
      await read(sluice, pageOf(registry, layers[1], more));
      times.push(mainThreadMs(sluice.process.pid) - before);
    }
    assert.ok(Math.min(...times) < boundMs(mostMs), `${more}: ${times.join(', ')} ms`);
    const { bytes } = await loadFirstView(sluice.url, pageOf(registry, layers[1], more));
    assert.ok(bytes < mostBytes, `${more}: ${bytes} bytes`);
    t.diagnostic(`${more || 'first view'}: ${Math.round(Math.min(...times))} ms, ${bytes} bytes`);
  }
  const found = await read(sluice, pageOf(registry, layers[1], '&name=99999'));
  assert.match(found, /name-99999</);
  const changed = await read(sluice, pageOf(registry, layers[1], '&change=changed'));
  assert.match(changed, /20,000 found in the whole layer.* The first 2,000 are shown/s);
  const { longestMs: shown } = await watched.turns();
  t.diagnostic(`event loop: ${reading} ms while reading, ${shown} ms while showing`);
  assert.ok(shown < boundMs(mostMs), `${shown} ms while pages are shown`);
});

test('who may not pull an image learns nothing of its layers', async () => {
  await using registry = await startRegistry({ auth: 'basic' });
  await using other = await startRegistry();
  const layer = await layerOf([{ name: 'secret', content: 'secret' }]);
  await pushed(registry, [layer]);
  await pushed(other, [layer], [layer.content]);
  const admin = { name: 'admin', password: 'open sesame' };
  await using sluice = await startSluice({
    config: { ...configFor(registry, other), accounts: { [admin.name]: admin.password } },
  });
  const personNamed = async (email: string) => {
    const token = await newAccessToken(sluice, admin, email);
    return { authorization: `Bearer ${token}` };
  };
  const ann = await personNamed('ann@example.org');
  const bob = await personNamed('bob@example.org');
  const added = await sluice.fetch('/platform/credentials', {
    method: 'POST',
    headers: { ...ann, 'content-type': 'application/json' },
    body: JSON.stringify({
      credentials: {
        name: 'registry',
        provider: 'container-reg',
        keys: { registry: registry.host, userName: registry.username, password: registry.password },
      },
    }),
  });
  assert.equal(added.status, 200, await added.text());
  const path = pageOf(registry, layer);
  assert.match(await readWhole(sluice, path, ann), /secret/);

  const ask = async (address: string, headers: object) => {
    const response = await sluice.fetch(address, { headers: { ...asBrowser, ...headers } });
    const text = await response.text();
    const place = new URL(address, sluice.url).searchParams.get('image') ?? '';
    return { status: response.status, text: withoutIds(text, place) };
  };
  const missing = `/view/inspect/layer?image=${registry.host}/missing:latest&layer=${layer.content.digest}`;
  for (const viewer of [bob, {}]) {
    const refused = await ask(path, viewer);
    assert.ok(refused.status >= 400);
    assert.deepEqual(refused, await ask(missing, viewer));
    assert.doesNotMatch(refused.text, /secret/);
  }
  // The manifest of another registry names the same digest, without having the content.
  const named = await ask(pageOf(other, layer), bob);
  assert.equal(named.status, 404);
  assert.doesNotMatch(named.text, /secret/);
});

/** Cuts out what differs between two failures of the same kind. */
function withoutIds(text: string, image: string): string {
  const [name = ''] = image.split(':latest');
  const repository = name.slice(name.indexOf('/') + 1);
  return text
    .replaceAll(/nonce="[^"]*"|Error ID: \S+|[0-9a-f]{8}-[0-9a-f-]{27}/g, '')
    .replaceAll(encodeURIComponent(encodeURIComponent(repository)), 'NAME')
    .replaceAll(repository, 'NAME');
}

test('a server that is killed while it reads a layer leaves nothing half made', async () => {
  await using registry = await startRegistry();
  await using data = await makeTempDir('data');
  const layer = manyFiles(100_000, 'x');
  await pushed(registry, [layer]);
  const first = await startSluice({ config: configFor(registry), data: data.path });
  assert.match(await read(first, pageOf(registry, layer)), /data-moving/);
  first.process.kill('SIGKILL');
  await first.stop();
  const directory = join(data.path, 'listings');
  await writeFile(join(directory, 'half.tree.1.new'), 'half');
  await using second = await startSluice({ config: configFor(registry), data: data.path });
  assert.deepEqual(await readdir(directory), []);
  assert.match(await readWhole(second, pageOf(registry, layer)), />100,000</);
  const kept = await readdir(directory);
  assert.deepEqual(kept.map(name => name.replace(/^[0-9a-f]{64}/, '')).sort(), [
    '.entries',
    '.tree',
    '.waste',
  ]);
  // A file that the disk has damaged is made again.
  for (const name of kept) await writeFile(join(directory, name), 'damaged');
  assert.match(await readWhole(second, pageOf(registry, layer)), />100,000</);
});

test('a full disk is a sentence on the page, and the image can still be looked into', async () => {
  await using registry = await startRegistry();
  const layer = await layerOf([{ name: 'a', content: 'a' }]);
  await pushed(registry, [layer]);
  await using sluice = await startSluice({ config: configFor(registry), diskBytes: 24_000_000 });
  const directory = `/proc/${sluice.process.pid}/root${sluice.data}`;
  await writeFile(join(directory, 'ballast'), Buffer.alloc(40_000_000)).catch(() => {});
  await eventually('the disk is full', async () => (await sluice.fetch('/readyz')).status !== 200);
  assert.match(await readWhole(sluice, pageOf(registry, layer)), /disk of the service is full/);
  const image = encodeURIComponent(`${registry.host}/large:latest`);
  assert.match(await read(sluice, `/view/inspect?image=${image}`), /History and layers/);
});
