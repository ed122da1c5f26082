/** Search of package names, and what is read from their versions. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hasName, matchingNames } from '../../../src/conda/search/package-search.ts';
import { versionsIn } from '../../../src/conda/search/package-versions.ts';
import { boundMs, longestBlock } from '../../world/longest-block.ts';

const listOf = (...names: readonly string[]) => joined(names);
const joined = (names: readonly string[]) => `\n${names.join('\n')}\n`;

test('the name itself is first, then names that begin with the text, then those that contain it', async () => {
  const lists = [listOf('r-bwa', 'bwa-mem2', 'bwa', 'bwameth'), listOf('bwa', 'abwa', 'samtools')];
  const { names, total } = await matchingNames(lists, 'BWA', 4);
  assert.deepEqual(names, ['bwa', 'bwameth', 'bwa-mem2', 'abwa']);
  assert.equal(total, 5);
  assert.ok(hasName(lists[0] ?? '', 'bwa'));
  assert.ok(!hasName(lists[0] ?? '', 'bw'));
});

test('matches are counted up to a thousand, and the best are found among all', async () => {
  const many = Array.from({ length: 5000 }, (_, at) => `python-package-${at}`);
  const lists = [joined(many), joined([...many, 'zpython', 'python'])];
  const { names, total } = await matchingNames(lists, 'python', 3);
  assert.deepEqual(names, ['python', 'python-package-0', 'python-package-1']);
  assert.equal(total, 1000);
});

test('a search in half a million names does not hold the event loop', async () => {
  const list = joined(Array.from({ length: 500_000 }, (_, at) => `python-package-${at}`));
  const { cpuMs } = await longestBlock(() => matchingNames([list], 'python', 20));
  assert.ok(cpuMs < boundMs(50), `${cpuMs} ms`);
});

test('what is not a version is ignored', () => {
  const record = (version: unknown, more: object = {}) => ({ version, ...more });
  const shard = {
    packages: { a: record('1.0', { size: 5 }), b: record(7), c: null },
    'packages.conda': {
      d: record('1.0', { size: 9, timestamp: 3 }),
      e: record('<b>'),
      h: record('1..2'),
      f: record('1.0', { size: 1, timestamp: 2 }),
      g: record('2.0', { size: 'x' }),
    },
  };
  assert.deepEqual(versionsIn(shard), [
    { version: '2.0', size: undefined },
    { version: '1.0', size: 9 },
  ]);
  assert.deepEqual(versionsIn('no shard'), []);
});
