/** Paths of a package are in the order of their bytes, and all names together have a limit. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ArchiveProblem } from '../../../src/conda/archives/archive-checks.ts';
import type { UnpackedArchive } from '../../../src/conda/archives/unpacked-archive.ts';
import { UnpackedEntries } from '../../../src/conda/archives/unpacked-entries.ts';
import { planPaths } from '../../../src/conda/installing/plan-paths.ts';

test('paths sort like their bytes, a directory right before what is in it', () => {
  const sorted = ['a', 'a/b', 'a/b/c', 'a/c', 'a\u0001', 'a-b', 'a.b', 'ab', 'ä', '\uffff', '𝄞'];
  const entries = new UnpackedEntries();
  for (const path of sorted) entries.add({ path, kind: 'directory', mtime: 0 });
  const listed = [...sorted].reverse().map(path => ({
    listed: {
      ...{ path, type: 'directory' as const, noLink: false },
      ...{ sha256: undefined, size: undefined, placeholder: undefined },
    },
    entry: entries.get(path),
  }));
  const planned = planPaths({
    ...{ name: 'made', listed, entryPoints: [], python: undefined },
    archive: { entries } as UnpackedArchive,
    place: { prefix: '/opt/conda' },
  });
  assert.deepEqual(
    planned.map(({ path }) => path),
    sorted,
  );
});

test('names of more than 32 Mi characters are refused', () => {
  const entries = new UnpackedEntries();
  const link = 'x'.repeat(4090);
  const add = (at: number) => entries.add({ path: `${at}`, kind: 'symlink', mtime: 0, link });
  for (let at = 0; at < 8000; at += 1) add(at);
  assert.throws(
    () => {
      for (let at = 8000; at < 9000; at += 1) add(at);
    },
    { constructor: ArchiveProblem, message: 'has names of more than 33554432 characters' },
  );
});
