/** Stored content that the disk has changed: one bit of each file, with the same size and time. */
import assert from 'node:assert/strict';
import { open, readdir, stat, utimes } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { digestOf } from '../../src/oci/digest.ts';
import { expect, manifestOf, Repository } from '../hosted/push-client.ts';
import { assertBytes } from '../world/assert-bytes.ts';
import { eventually } from '../world/eventually.ts';
import { type Sluice, startSluice } from '../world/sluice.ts';
import { makeTempDir, type TempDir } from '../world/temp-dir.ts';
import { call } from './http-client.ts';
import { pattern, type ScriptedUpstream, startScriptedUpstream } from './scripted-upstream.ts';

const sizes = [1, 700, 64 * 1024, 64 * 1024 + 1, 300_000, 1_500_000, 5_000_000];

let directory: TempDir;
let upstream: ScriptedUpstream;
let sluice: Sluice;

const start = () =>
  startSluice({
    data: directory.join('data'),
    config: {
      accounts: { admin: 'secret' },
      hosted: { anonymous: ['*'] },
      registries: { [upstream.host]: { plainHttp: true, blobs: 'cache' } },
    },
  });

before(async () => {
  directory = await makeTempDir('rot');
  upstream = await startScriptedUpstream();
  sluice = await start();
});
after(async () => {
  await sluice?.stop();
  await upstream?.stop();
  await directory?.remove();
});

/** Changes one bit in the file of each content, and forgets that any of it was ever checked. */
async function rotAll(digests: readonly string[]): Promise<void> {
  await sluice.stop();
  for (const [at, digest] of digests.entries()) await flipBit(fileOf(digest), at);
  sluice = await start();
}

function fileOf(digest: string): string {
  const hex = digest.slice('sha256:'.length);
  return directory.join(`data/content/blobs/sha256/${hex.slice(0, 2)}/${hex}`);
}

async function flipBit(path: string, seed: number): Promise<void> {
  const { size, atime, mtime } = await stat(path);
  const file = await open(path, 'r+');
  try {
    const position = (seed * 7919) % size;
    const byte = Buffer.alloc(1);
    await file.read(byte, 0, 1, position);
    byte[0] = (byte[0] ?? 0) ^ (1 << (seed % 8));
    await file.write(byte, 0, 1, position);
  } finally {
    await file.close();
  }
  await utimes(path, atime, mtime);
}

const setAside = () => readdir(join(sluice.data, 'content/damaged'));

test('a damaged hosted blob is never delivered completely, is unknown afterwards, and a push repairs it', async () => {
  const blobs = sizes.map(size => pattern(size, `hosted ${size}`));
  const pushed = new Repository(sluice, 'public/rot');
  for (const blob of blobs) expect(await pushed.pushBlob(blob), 201);
  await rotAll(blobs.map(blob => digestOf(blob)));
  const repository = new Repository(sluice, 'public/rot');
  for (const blob of blobs) {
    const route = `blobs/${digestOf(blob)}`;
    // A connection that breaks off before the head was sent is an error here.
    const broken = await repository.get(route).catch(() => undefined);
    assert.ok(!broken?.isWhole, `${blob.length} bytes were delivered whole and wrong`);
    const unknown = await repository.get(route);
    assert.equal(unknown.status, 404);
    assert.match(unknown.body.toString(), /BLOB_UNKNOWN/);
    assert.equal((await repository.send('HEAD', route)).status, 404);
    expect(await repository.pushBlob(blob), 201);
    assertBytes(expect(await repository.get(route), 200).body, blob);
  }
  assert.equal((await setAside()).length, blobs.length);
  assert.match(sluice.output(), /content is damaged and was moved to damaged/);
});

test('a range of a damaged blob is not delivered completely either', async () => {
  const blob = pattern(2_000_000, 'range');
  expect(await new Repository(sluice, 'public/rot').pushBlob(blob), 201);
  await rotAll([digestOf(blob)]);
  const repository = new Repository(sluice, 'public/rot');
  const range = { range: 'bytes=1000000-1200000' };
  const part = await repository.send('GET', `blobs/${digestOf(blob)}`, undefined, range);
  assert.equal(part.status, 206);
  assert.ok(!part.isWhole);
  const again = await repository.send('GET', `blobs/${digestOf(blob)}`, undefined, range);
  assert.equal(again.status, 404);
});

test('many simultaneous requests for a damaged blob: no client gets it completely', async () => {
  const blob = pattern(3_000_000, 'many');
  expect(await new Repository(sluice, 'public/rot').pushBlob(blob), 201);
  await rotAll([digestOf(blob)]);
  const repository = new Repository(sluice, 'public/rot');
  const route = `blobs/${digestOf(blob)}`;
  // A connection that breaks off before the head was sent is an error here.
  const get = () => repository.get(route).catch(() => undefined);
  for (const reply of await Promise.all(Array.from({ length: 20 }, get))) {
    assert.ok(reply?.status === 404 || !reply?.isWhole, `${reply?.status}`);
  }
});

test('intact content is read again after a restart, and delivered', async () => {
  const blob = pattern(3_000_000, 'sound');
  expect(await new Repository(sluice, 'public/rot').pushBlob(blob), 201);
  await sluice.stop();
  sluice = await start();
  const repository = new Repository(sluice, 'public/rot');
  const route = `blobs/${digestOf(blob)}`;
  const range = { range: 'bytes=5-2999990' };
  const replies = await Promise.all([
    ...Array.from({ length: 10 }, () => repository.get(route)),
    repository.send('GET', route, undefined, range),
  ]);
  for (const { isWhole } of replies) assert.ok(isWhole);
  assertBytes(replies[0]?.body, blob);
  assertBytes(replies.at(-1)?.body, blob.subarray(5, 2_999_991));
});

test('a damaged copy of an upstream blob is fetched again', async () => {
  const blob = pattern(1_000_000, 'cached');
  const image = upstream.image('rot/cached', [blob]);
  const route = `blobs/${digestOf(blob)}`;
  const { targetImage } = await sluice.request({ containerImage: image.name });
  const pull = () => call(sluice.at(targetImage, route));
  assertBytes(expect(await pull(), 200).body, blob);
  await eventually('the copy is kept', () =>
    stat(fileOf(digestOf(blob))).then(Boolean, () => false),
  );
  await rotAll([digestOf(blob)]);
  assert.ok(!(await pull()).isWhole);
  assertBytes(expect(await pull(), 200).body, blob);
  assertBytes(expect(await pull(), 200).body, blob);
  assert.equal(upstream.count('GET', route), 2);
});

test('a damaged hosted manifest is unknown, and a push repairs it', async () => {
  const repository = new Repository(sluice, 'public/manifest');
  const config = Buffer.from('{}');
  expect(await repository.pushBlob(config), 201);
  expect(await repository.pushManifest('latest', config), 201);
  await rotAll([digestOf(manifestOf(config, []))]);
  const later = new Repository(sluice, 'public/manifest');
  for (const method of ['GET', 'HEAD']) {
    const reply = await later.send(method, 'manifests/latest');
    assert.equal(reply.status, 404, `${method}: ${reply.body}`);
  }
  expect(await later.pushManifest('latest', config), 201);
  assertBytes(expect(await later.get('manifests/latest'), 200).body, manifestOf(config, []));
});
