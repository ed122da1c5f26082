import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { open, readdir, rename, rm } from 'node:fs/promises';
import { test } from 'node:test';
import { digestOf } from '../../src/oci/digest.ts';
import { administered, expect, Repository } from '../hosted/push-client.ts';
import { assertBytes } from '../world/assert-bytes.ts';
import { eventually } from '../world/eventually.ts';
import { type Sluice, startSluice } from '../world/sluice.ts';
import { requireCommand } from '../world/tools.ts';
import { startFaultWorld } from './fault-world.ts';
import { assertApiFault, assertRegistryFault, call } from './http-client.ts';
import { pattern } from './scripted-upstream.ts';

const mebibyte = 1024 * 1024;
const full = { status: 507, code: 'UNAVAILABLE', message: /disk of the service is full/ };
const login = { authorization: `Basic ${btoa('admin:open sesame')}` };

/** The data directory as the server sees it. */
function dataOf(sluice: Sluice): string {
  return `/proc/${sluice.process.pid}/root${sluice.data}`;
}

/** Fills the disk except for the given number of bytes. Returns a function that frees them again. */
async function fill(sluice: Sluice, leaving = 0): Promise<() => Promise<void>> {
  const path = `${dataOf(sluice)}/ballast`;
  await using file = await open(path, 'w');
  for (let size = mebibyte; size >= 1; ) {
    const written = await file.write(Buffer.alloc(size)).catch(() => undefined);
    if (written?.bytesWritten !== size) size = Math.floor(size / 2);
  }
  await file.truncate((await file.stat()).size - leaving);
  return () => rm(path);
}

async function readiness(sluice: Sluice, query = ''): Promise<number> {
  return (await call(`${sluice.url}/readyz${query}`)).status;
}

test('a disk that fills up: writes are refused before it is full, and continue when there is space', async () => {
  await using sluice = await startSluice({ config: administered, diskBytes: 24 * mebibyte });
  const repository = new Repository(sluice, 'team/app');
  const layer = pattern(8 * mebibyte, 'before');
  const digest = await repository.pushImage('before', [layer]);

  const large = pattern(40 * mebibyte, 'too large');
  assertRegistryFault(await repository.pushBlob(large), full);
  const location = await repository.begin();
  assertRegistryFault(await repository.send('PATCH', location, large), full);
  assert.equal((await repository.get(location)).status, 404, 'the upload has ended');
  const temporary = async () => {
    const names = await readdir(`${dataOf(sluice)}/content/tmp`);
    return names.filter(name => !name.startsWith('ready-'));
  };
  assert.deepEqual(await temporary(), [], 'and has made room');
  // The last look at the disk may have been before that.
  await eventually('it is ready', async () => (await readiness(sluice)) === 200);

  const statuses = new Set<number>();
  for (let size = 4 * mebibyte; size >= 1; size = Math.floor(size / 2)) {
    for (let at = 0; at < 8; at += 1) {
      const reply = await repository.pushBlob(pattern(size, `fill ${size} ${at}`));
      statuses.add(reply.status);
      if (reply.status !== 201) break;
    }
  }
  assert.deepEqual([...statuses].sort(), [201, 507]);
  const image = expect(await repository.get('manifests/before'), 200);
  assert.equal(digestOf(image.body), digest);
  const kept = await repository.get(`blobs/${digestOf(layer)}`);
  assert.equal(digestOf(expect(kept, 200).body), digestOf(layer));

  const makeRoom = await fill(sluice, mebibyte / 2);
  await eventually('it is not ready', async () => (await readiness(sluice)) === 503);
  assert.equal(await readiness(sluice, '?for=pulls'), 200);
  await sluice.requests();
  assert.match(sluice.output(), /disk space is low/);
  assertRegistryFault(await repository.pushBlob(pattern(1, 'one byte')), full);
  const asked = await call(`${sluice.url}/v1alpha2/container`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ containerImage: 'registry.example/x' }),
  });
  assertApiFault(asked, 507, full.message);
  assert.equal(digestOf(expect(await repository.get('manifests/before'), 200).body), digest);
  // A request that removes content frees space, so it is not refused.
  expect(await repository.send('DELETE', 'manifests/before'), 202);

  await makeRoom();
  // The reserve is still used up by what was pushed; a blob that goes makes room for another.
  await repository.send('DELETE', `blobs/${digestOf(layer)}`);
  await rm(`${dataOf(sluice)}/content/blobs`, { recursive: true });
  await eventually('it is ready again', async () => (await readiness(sluice)) === 200);
  assert.equal((await repository.pushBlob(pattern(mebibyte, 'after'))).status, 201);
  assert.doesNotMatch(sluice.output(), /uncaught error|unexpected error/);
});

test('without a reserve and without a free byte, reads continue', async () => {
  const diskBytes = 24 * mebibyte;
  const config = { disk: { minFreeBytes: 0 }, trustedProxies: 1, upstream: {} };
  await using world = await startFaultWorld(config, {}, { diskBytes });
  const { sluice, upstreams } = world;
  const { cache } = upstreams;
  const [kept, unseen] = [pattern(500_000, 'kept'), pattern(500_000, 'unseen')];
  const image = cache.image('team/app', [kept, unseen]);
  const pull = await world.serve(image);
  const blob = (at: number) => pull(`blobs/${image.layers[at]?.digest}`);
  assert.equal((await pull('manifests/latest')).status, 200);
  assertBytes((await blob(0)).body, kept);
  const isKept = async () =>
    (await blob(0)) && cache.count('GET', `${image.layers[0]?.digest}`) === 1;
  await eventually('the copy is entered', isKept);

  const makeRoom = await fill(sluice);
  await eventually('it is not ready', async () => (await readiness(sluice)) === 503);
  assert.equal(await readiness(sluice, '?for=pulls'), 200);
  // The copy that starts before the next check of the disk is aborted.
  const isRelayed = async () => (await blob(1).catch(() => undefined))?.isWhole === true;
  await eventually('a blob that cannot be copied is relayed', isRelayed);
  assertBytes((await blob(1)).body, unseen);
  // Longer than several rounds of regular work, each with something to write.
  const began = performance.now();
  for (let count = 2; count < 5 || performance.now() - began < 3000; count += 1) {
    assertBytes((await blob(0)).body, kept, 'a copy, though its use cannot be written down');
    const headers = { 'x-forwarded-for': `192.0.${count >> 8}.${count & 255}` };
    assert.equal((await pull('manifests/latest', { headers })).status, 200);
    const usage = await call(`${sluice.url}/v1alpha2/metrics/pulls`, { headers: login });
    assert.deepEqual(JSON.parse(usage.body.toString()), { metric: 'pulls', count, orgs: {} });
  }
  assert.equal((await world.ask({ containerImage: image.name })).status, 507);

  await makeRoom();
  await eventually('it is ready again', async () => (await readiness(sluice)) === 200);
  assert.equal((await world.ask({ containerImage: image.name })).status, 200);
  assert.equal(sluice.process.exitCode, null);
  assert.doesNotMatch(sluice.output(), /uncaught error|unexpected error/);
});

test('a read-only disk, and missing content: the server is not ready, and does not crash', async () => {
  await using sluice = await startSluice({ config: administered, diskBytes: 24 * mebibyte });
  const repository = new Repository(sluice, 'team/app');
  await repository.pushImage('1', [pattern(1000, 'layer')]);
  const temporary = `${sluice.data}/content/tmp`;
  const inside = (...command: string[]) => {
    const target = ['--target', String(sluice.process.pid), '--mount'];
    execFileSync(requireCommand('nsenter'), [...target, ...command]);
  };
  assert.equal(await readiness(sluice), 200);

  // A disk on which files are open for writing becomes read-only by a failure alone: a part of it does here.
  inside('mount', '-t', 'tmpfs', '-o', 'ro', 'tmpfs', temporary);
  await eventually('it is not ready', async () => (await readiness(sluice)) === 503);
  assert.equal(await readiness(sluice, '?for=pulls'), 200);
  assert.equal((await repository.get('manifests/1')).status, 200);
  assert.ok((await repository.pushBlob(pattern(10, 'new'))).status >= 500);
  inside('umount', temporary);
  await eventually('it is ready again', async () => (await readiness(sluice)) === 200);

  const content = `${dataOf(sluice)}/content`;
  await rename(content, `${content}.gone`);
  await eventually('it is not ready', async () => (await readiness(sluice)) === 503);
  await eventually('nor for pulls', async () => (await readiness(sluice, '?for=pulls')) === 503);
  await rename(`${content}.gone`, content);
  await eventually('it is ready again', async () => (await readiness(sluice)) === 200);
  assert.equal(digestOf((await repository.get('manifests/1')).body).length, 71);
  assert.doesNotMatch(sluice.output(), /uncaught error/);
});
