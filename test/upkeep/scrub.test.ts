import assert from 'node:assert/strict';
import { readdir, writeFile } from 'node:fs/promises';
import { test } from 'node:test';
import { type Digest, digestOf } from '../../src/oci/digest.ts';
import { scrub } from '../../src/server/upkeep/verify.ts';
import { openContentDirectory } from '../../src/storage/content/content-directory.ts';
import { assertBytes } from '../world/assert-bytes.ts';
import { makeTempDir } from '../world/temp-dir.ts';

const endless = new AbortController().signal;

async function storeOf(root: string, contents: readonly Buffer[]): Promise<Digest[]> {
  const store = await openContentDirectory(root);
  const digests: Digest[] = [];
  for (const bytes of contents) {
    const ingest = await store.ingest();
    await ingest.write(bytes);
    digests.push(await ingest.commit());
  }
  return digests;
}

function pathOf(root: string, digest: string): string {
  const hex = digest.slice('sha256:'.length);
  return `${root}/blobs/sha256/${hex.slice(0, 2)}/${hex}`;
}

test('a round finds damaged content, sets it aside, and stays within its rate', async () => {
  await using directory = await makeTempDir('scrub');
  const root = directory.path;
  const contents = Array.from({ length: 20 }, (_, at) => Buffer.alloc(100_000, `${at}-`));
  const digests = await storeOf(root, contents);
  for (const digest of digests.slice(0, 3)) {
    await writeFile(pathOf(root, digest), Buffer.alloc(100_000, 'x'));
  }
  const found: string[] = [];
  const store = await openContentDirectory(root, { onDamaged: digest => found.push(digest) });
  const began = performance.now();
  const report = await scrub(store, 4_000_000, endless);
  const ms = performance.now() - began;
  assert.deepEqual(report, { checked: 20, checkedBytes: 2_000_000, damaged: 3 });
  assert.deepEqual(found.sort(), digests.slice(0, 3).sort());
  assert.ok(ms > 400, `2 MB at 4 MB/s took ${ms} ms`);
  for (const digest of digests.slice(0, 3)) assert.equal(await store.size(digest), undefined);
  assert.equal((await readdir(`${root}/damaged`)).length, 3);
  assert.deepEqual(await scrub(store, 1e9, endless), { checked: 0, checkedBytes: 0, damaged: 0 });
});

test('correct content that replaced damaged content stays', async () => {
  await using directory = await makeTempDir('scrub');
  const root = directory.path;
  const bytes = Buffer.alloc(3_000_000, 'right');
  const [digest = digestOf('')] = await storeOf(root, [bytes]);
  await writeFile(pathOf(root, digest), Buffer.alloc(bytes.length, 'wrong'));
  const store = await openContentDirectory(root);
  let isRepaired = false;
  const proof = await store.scrub(digest, async () => {
    if (isRepaired) return;
    isRepaired = true;
    const ingest = await store.ingest();
    await ingest.write(bytes);
    await ingest.commit();
  });
  assert.equal(proof, 'damaged', 'it had read the damaged file');
  assertBytes(await store.read(digest), bytes);
});

test('a round ends when it is stopped', async () => {
  await using directory = await makeTempDir('scrub');
  const digests = await storeOf(directory.path, [Buffer.alloc(5_000_000, 'slow')]);
  assert.equal(digests.length, 1);
  const store = await openContentDirectory(directory.path);
  const stopping = new AbortController();
  const round = scrub(store, 1, stopping.signal);
  setImmediate(() => stopping.abort());
  await assert.rejects(round);
});
