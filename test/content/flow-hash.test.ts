import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { after, test } from 'node:test';
import { createFlowHash, HashThreads } from '../../src/storage/hashing/flow-hash.ts';

const threads = new HashThreads(2);
after(() => threads.close());

const mebibyte = 1024 * 1024;

/** Pieces in shared memory, as the wire reads them. */
function pieces(seed: number, count = 20): Uint8Array[] {
  return Array.from({ length: count }, (_, index) =>
    new Uint8Array(new SharedArrayBuffer(1 + ((seed * 7919 + index * 104_729) % 70_000))).fill(
      seed + index,
    ),
  );
}

const hexOf = (parts: readonly Uint8Array[], algorithm = 'sha256') =>
  createHash(algorithm).update(Buffer.concat(parts)).digest('hex');

for (const [where, expected] of [
  ['on the main thread', 1],
  ['on a thread', undefined],
  ['on a thread, announced', mebibyte],
] as const) {
  for (const algorithm of ['sha256', 'sha512'] as const) {
    test(`${algorithm} ${where}`, async () => {
      const parts = pieces(3);
      const hash = createFlowHash(algorithm, expected, threads);
      const read = parts.map(part => hash.update(part));
      assert.equal(await hash.digest(), hexOf(parts, algorithm));
      await Promise.all(read);
      const empty = createFlowHash(algorithm, expected, threads);
      assert.equal(await empty.digest(), hexOf([], algorithm));
    });
  }
}

test('many simultaneous hashes do not mix', async () => {
  const all = Array.from({ length: 30 }, (_, seed) => pieces(seed));
  const hashes = all.map(() => createFlowHash('sha256', undefined, threads));
  for (let index = 0; index < 20; index += 1) {
    hashes.forEach((hash, seed) => void hash.update(all[seed]?.[index] ?? new Uint8Array()));
  }
  assert.deepEqual(
    await Promise.all(hashes.map(hash => hash.digest())),
    all.map(parts => hexOf(parts)),
  );
});

test('one flipped bit changes the hash', async () => {
  const parts = pieces(5);
  const right = hexOf(parts);
  const [part] = parts;
  if (part) part[0] = (part[0] ?? 0) ^ 1;
  const hash = createFlowHash('sha256', undefined, threads);
  for (const each of parts) void hash.update(each);
  assert.notEqual(await hash.digest(), right);
});

test('memory may be reused once update has resolved; bytes of a larger buffer stay in place', async () => {
  const shared = new Uint8Array(new SharedArrayBuffer(mebibyte));
  const large = Buffer.alloc(2 * mebibyte);
  const seen: Buffer[] = [];
  const hash = createFlowHash('sha256', undefined, threads);
  for (let round = 0; round < 8; round += 1) {
    const part = round % 2 === 0 ? shared.fill(round) : large.fill(round).subarray(5, 1000);
    seen.push(Buffer.from(part));
    await hash.update(part);
  }
  assert.equal(large.length, 2 * mebibyte);
  assert.equal(await hash.digest(), hexOf(seen));
});

test('an aborted hash rejects its waiting calls and does not affect others', async () => {
  const other = createFlowHash('sha256', undefined, threads);
  const hash = createFlowHash('sha256', undefined, threads);
  const waiting = hash.update(new Uint8Array(10));
  hash.abort();
  hash.abort();
  await assert.rejects(waiting, /given up/);
  await assert.rejects(hash.digest(), /given up/);
  const parts = pieces(9);
  for (const part of parts) void other.update(part);
  assert.equal(await other.digest(), hexOf(parts));
});

test('a dead thread fails its hashes, and the next hash gets a new thread', async () => {
  const own = new HashThreads(1);
  const hash = createFlowHash('sha256', undefined, own);
  await hash.update(new Uint8Array(10));
  const waiting = hash.update(new Uint8Array(new SharedArrayBuffer(256 * mebibyte)));
  await Promise.all([own.close(), assert.rejects(waiting, /thread ended/)]);
  await assert.rejects(hash.digest(), /thread ended/);
  const next = createFlowHash('sha256', undefined, own);
  assert.equal(await next.digest(), hexOf([]));
  await own.close();
});
