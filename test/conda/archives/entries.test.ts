/** Entries of an archive as rows outside of the heap: what was put in comes out, within bounds, whatever its names are. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { test } from 'node:test';
import { Worker } from 'node:worker_threads';
import { ArchiveProblem } from '../../../src/conda/archives/archive-problem.ts';
import { EntryTable, type UnpackedEntry } from '../../../src/conda/archives/entries/entry-table.ts';
import { keyedHash } from '../../../src/conda/archives/entries/keyed-hash.ts';
import { PathNames } from '../../../src/conda/archives/entries/path-names.ts';

const most = 500_000;
const sumOf = (text: string) => createHash('sha256').update(text).digest();

/** Returns numbers below a limit, the same in each run. */
function randomFrom(seed: number): (limit: number) => number {
  let state = seed;
  return limit => {
    state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0;
    return (state >>> 8) % limit;
  };
}

interface Expected extends Omit<UnpackedEntry, 'row' | 'content'> {
  readonly content?: { size: number; mode: number; mtime: number; isShared: boolean };
}

/** Fills a table, and returns what it should contain: objects, as an archive without bounds would have them. */
function filled(table: EntryTable, count: number, seed: number): Map<string, Expected> {
  const below = randomFrom(seed);
  const expected = new Map<string, Expected>();
  const files: string[] = [];
  const letters = ['a', 'ä', '日', '𝄞', '/', 'x y', '\n', '\ufffd'];
  for (let at = 0; at < count; at += 1) {
    const letter = letters[below(letters.length)] ?? 'b';
    const path = `${letter.repeat(1 + below(40))}${at}${'y'.repeat(below(30))}`;
    const mtime = below(2 ** 24) * 1000 - 5;
    const kind = below(files.length > 0 ? 4 : 3);
    if (kind === 0) {
      table.directory(path, mtime);
      expected.set(path, { path, kind: 'directory', mtime, link: '' });
    } else if (kind === 1) {
      const link = `../${letter.repeat(below(500))}x`;
      table.symlink(path, mtime, link);
      expected.set(path, { path, kind: 'symlink', mtime, link });
    } else if (kind === 2) {
      const [size, mode] = [below(2 ** 24) * 2 ** 20, below(0o1000)];
      const row = table.file(path, { size, mode, mtime, position: size * 2 });
      table.setDigest(row, sumOf(path));
      const content = { size, mode, mtime, isShared: false };
      expected.set(path, { path, kind: 'file', mtime, link: '', content });
      files.push(path);
    } else {
      const target = files[below(files.length)] ?? '';
      const found = table.get(target);
      assert.ok(found);
      table.hardLink(path, found, mtime);
      const { content } = expected.get(target) ?? {};
      assert.ok(content);
      Object.assign(content, { mtime, isShared: true });
      expected.set(path, { path, kind: 'file', mtime: found.mtime, link: '', content });
      files.push(path);
    }
  }
  return expected;
}

test('a table returns what was put into it, for each number of entries and after it was used before', () => {
  for (const [seed, count] of [0, 1, 909, 910, 911, 2048, 2049, 40_000, 3, 5000].entries()) {
    using table = EntryTable.open(most);
    assert.equal(table.size, 0);
    const expected = filled(table, count, seed + 1);
    assert.equal(table.size, count);
    for (const [path, { content, kind, link }] of expected) {
      const found = table.get(path);
      assert.ok(found, path);
      assert.deepEqual([found.path, found.kind, found.link], [path, kind, link]);
      assert.equal(found.content === undefined, content === undefined);
      if (!found.content || !content) continue;
      const { row, sha256, position, ...rest } = found.content;
      assert.deepEqual(rest, content);
      assert.equal(position, content.size * 2);
      assert.equal(sha256, sumOf(table.at(row).path).toString('hex'));
    }
    for (const path of ['', 'nowhere', '\ud800', 'x'.repeat(10_000)]) {
      assert.equal(table.get(path), undefined);
    }
    for (const { row } of [...expected.keys()].map(path => table.get(path) as UnpackedEntry)) {
      assert.equal(table.mark(row), true);
      assert.equal(table.mark(row), false);
    }
  }
});

test('a file with more names than one has the time of the last one', () => {
  using table = EntryTable.open(most);
  const row = table.file('a', { size: 1, mode: 0o644, mtime: 100, position: 0 });
  for (const [path, mtime] of [
    ['b', 200],
    ['c', 300],
  ] as const) {
    table.hardLink(path, table.get('a') as UnpackedEntry, mtime);
  }
  for (const path of ['a', 'b', 'c']) {
    const { content } = table.get(path) ?? {};
    assert.deepEqual([content?.row, content?.mtime, content?.isShared], [row, 300, true]);
  }
});

test('names sort like their bytes, a directory right before what is in it', () => {
  const names = new PathNames(() => ({ start: 0, length: 0 }));
  const sorted = ['a', 'a/b', 'a/b/c', 'a/c', 'a\u0001', 'a-b', 'a.b', 'ab', 'ä', '\uffff', '𝄞'];
  const places = sorted.map(text => names.add(text));
  const again = [...places].reverse().sort((one, other) => names.compare(one, other));
  assert.deepEqual(
    again.map(place => names.text(place)),
    sorted,
  );
});

test('names of more than 96 MiB are refused, and so is one that is too long', () => {
  const names = new PathNames(() => ({ start: 0, length: 0 }));
  const long = 'é'.repeat(4096);
  assert.equal(names.text(names.add(long)), long);
  assert.throws(() => names.add(`${long}x`), ArchiveProblem);
  const room = 96 * 1024 * 1024;
  for (let bytes = 2 * 8192; bytes <= room; bytes += 8192) names.add(long);
  assert.throws(() => names.add('x'), {
    constructor: ArchiveProblem,
    message: 'has names of more than 100663296 bytes',
  });
});

test('names that collide in one process do not collide in another one', async () => {
  // A table of 4096 places: all of these names want the same one here.
  const place = (text: string) => {
    const bytes = Buffer.from(text);
    return keyedHash(bytes, 0, bytes.length) & 0xfff;
  };
  const colliding: string[] = [];
  for (let at = 0; colliding.length < 500; at += 1) {
    if (place(`lib/${at}`) === 7) colliding.push(`lib/${at}`);
  }
  const module = new URL('../../../src/conda/archives/entries/keyed-hash.ts', import.meta.url);
  const program = `
    import { parentPort, workerData } from 'node:worker_threads';
    const { keyedHash } = await import(${JSON.stringify(module.href)});
    parentPort.postMessage(workerData.map(text => {
      const bytes = Buffer.from(text);
      return keyedHash(bytes, 0, bytes.length) & 0xfff;
    }));`;
  const address = new URL(`data:text/javascript,${encodeURIComponent(program)}`);
  const worker = new Worker(address, { workerData: colliding });
  const { promise, resolve, reject } = Promise.withResolvers<number[]>();
  worker.once('message', resolve).once('error', reject);
  const there = await promise;
  await worker.terminate();
  assert.equal(new Set(colliding.map(place)).size, 1);
  assert.ok(new Set(there).size > 400, `${new Set(there).size} places`);
});

test('a hash depends on each byte of a name, its length and nothing around it', () => {
  const bytes = Buffer.from('some/path/of-a.file');
  const seen = new Set<number>();
  for (let length = 0; length <= bytes.length; length += 1) {
    const hash = keyedHash(bytes, 0, length);
    seen.add(hash);
    const moved = Buffer.concat([Buffer.from('around'), bytes.subarray(0, length), Buffer.of(9)]);
    assert.equal(keyedHash(moved, 6, 6 + length), hash);
    for (let at = 0; at < length; at += 1) {
      const other = Buffer.from(bytes);
      other[at] = (other[at] ?? 0) ^ 0x80;
      seen.add(keyedHash(other, 0, length));
    }
  }
  const cases = 1 + bytes.length + (bytes.length * (bytes.length + 1)) / 2;
  // Two of them are equal once in 200,000 runs.
  assert.ok(seen.size >= cases - 1, `${seen.size} of ${cases}`);
});
