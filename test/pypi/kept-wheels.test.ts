import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createKeptWheels } from '../../src/pypi/index.ts';

const sha256 = 'a'.repeat(64);
const key = '1'.repeat(64);

function startStore() {
  const rows = new Map<string, { facts: string; digest: string }>();
  const leased: string[] = [];
  let isHere = true;
  let aborts = 0;
  let failing: { at?: 'commit' | 'enter' | undefined; error?: Error } = {};
  const failAt = (at: 'commit' | 'enter') => {
    if (failing.at === at) throw failing.error;
  };
  const kept = createKeptWheels({
    content: {
      claim: async (digest: string) => isHere && digest === `sha256:${sha256}`,
      size: async () => 7,
      async lease(digest: string) {
        leased.push(digest);
        return { path: '/the/wheel', async [Symbol.asyncDispose]() {} };
      },
    },
    cachedBlobs: { async adopt() {} },
    rows: {
      find: async (found: string) => rows.get(found),
      async enter(row: { key: string; facts: string; digest: string }) {
        failAt('enter');
        rows.set(row.key, row);
      },
    },
  } as unknown as Parameters<typeof createKeptWheels>[0]);
  const keep = () =>
    kept.keep(
      key,
      {
        ...{ name: 'docopt', version: '0.6.2', fileName: 'docopt-0.6.2-py3-none-any.whl' },
        metadata: '',
        source: { fileName: 'docopt-0.6.2.tar.gz', url: 'https://x', sha256: 'b'.repeat(64) },
      },
      {
        size: 7,
        digest: () => `sha256:${sha256}`,
        async commit() {
          failAt('commit');
          return `sha256:${sha256}`;
        },
        async abort() {
          aborts += 1;
        },
      } as never,
    );
  return {
    ...{ kept, keep, leased, remove: () => (isHere = false), aborted: () => aborts },
    fail(at: typeof failing.at, error: Error) {
      failing = { at, error };
    },
  };
}

test('a wheel that was built is found by its key, and opened by its address', async () => {
  const { kept, keep, leased, remove } = startStore();
  assert.equal(await kept.find(key), undefined);
  const wheel = await keep();
  assert.deepEqual(await kept.find(key), wheel);
  assert.equal(wheel.sha256, sha256);
  const fetched: string[] = [];
  const fetch = kept.fetching(async ({ url }) => {
    fetched.push(url);
    throw new Error('elsewhere');
  });
  const { signal } = new AbortController();
  const file = await fetch(wheel, signal);
  assert.deepEqual([file.path, file.size, file.sha256], ['/the/wheel', 7, sha256]);
  assert.deepEqual([fetched, leased], [[], [`sha256:${sha256}`]]);
  await assert.rejects(fetch({ ...wheel, url: 'https://x/y.whl' }, signal), /elsewhere/);

  // The address of one wheel opens no other content, and that of none opens nothing.
  for (const other of [
    { ...wheel, sha256: 'c'.repeat(64) },
    { ...wheel, url: `sluice-built:${'2'.repeat(64)}` },
  ]) {
    await assert.rejects(fetch(other, signal), /damaged or gone: try again/);
  }
  assert.equal(leased.length, 1);
  remove();
  assert.equal(await kept.find(key), undefined);
  await assert.rejects(fetch(wheel, signal), /damaged or gone: try again/);
});

test('what a build requires is noted with its wheel, which is not found by that key', async () => {
  const { kept, keep } = startStore();
  const wheel = await keep();
  const note = '3'.repeat(64);
  assert.equal(await kept.notesOf(note), undefined);
  const notes = { requirements: ['pip', 'cython>=3'], history: { listed: 'a', label: 'b' } };
  await kept.note(note, notes, wheel);
  assert.deepEqual(await kept.notesOf(note), notes);
  assert.equal(await kept.find(note), undefined);
});

test('a wheel that the disk has no room for is not kept, and its bytes are removed', async () => {
  const full = Object.assign(new Error('no space left on device'), { code: 'ENOSPC' });
  for (const failing of ['commit', 'enter'] as const) {
    const { kept, keep, fail, aborted } = startStore();
    fail(failing, full);
    await assert.rejects(keep(), { code: 'ENOSPC' }, failing);
    assert.equal(await kept.find(key), undefined);
    assert.equal(aborted(), 1, failing);
    fail(undefined, full);
    const wheel = await keep();
    assert.deepEqual(await kept.find(key), wheel);
  }
});
