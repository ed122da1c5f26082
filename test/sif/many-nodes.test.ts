/** An image of very many files, only in memory: how long its conversion holds the event loop. */
import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import { before, test } from 'node:test';
import { createScratchSpace } from '../../src/images/sif/conversion-limits.ts';
import type { LayerFile } from '../../src/images/sif/layers/read-layer.ts';
import { applyEntry, ImageTree, type TreeNode } from '../../src/images/sif/layers/tree.ts';
import { usualCompression } from '../../src/images/sif/squashfs/compression.ts';
import { openSquashfs } from '../../src/images/sif/squashfs/read/squashfs.ts';
import {
  inEntryOrder,
  squashImage,
  writeContents,
} from '../../src/images/sif/squashfs/squash-image.ts';
import { writeDescription } from '../../src/images/sif/squashfs/write/description-writer.ts';
import { blockBytes, WrittenInodes } from '../../src/images/sif/squashfs/write/written-inodes.ts';
import { unlimitedSpace } from '../../src/storage/directory/disk-space.ts';
import { boundMs, longestBlock } from '../world/longest-block.ts';
import { makeTempDir } from '../world/temp-dir.ts';

const count = 300_000;
/** Has no common factor with the count: the entries are in another order than the names. */
const step = 7919;
const tree = new ImageTree(2 * count);

function fileOf(entry: number): TreeNode['inode'] {
  return {
    ...{ kind: 'file', mode: 0o644, mtime: 0, size: 1, layer: 0, entry, bytes: undefined },
    ...{ target: '', device: undefined },
  };
}

before(() => {
  const directory = tree.make(['many'], 0, 0);
  for (let at = 0; at < count; at += 1) {
    tree.put(directory, `file-${at}`, fileOf((at * step) % count), 0);
  }
});

async function assertNeverHeld(work: () => Promise<unknown>): Promise<void> {
  const { cpuMs } = await longestBlock(work);
  const bound = boundMs(50);
  assert.ok(cpuMs < bound, `the event loop was held for ${cpuMs} ms, ${bound} are allowed`);
}

test('the files of an image are counted in turns', async () => {
  const limits = { maxEntries: count, maxUnpackedBytes: count, maxScratchBytes: count };
  const stopped = AbortSignal.abort(new Error('stopped after the count'));
  const lines: string[] = [];
  const options = {
    ...{ directory: '/', output: 'never', offset: 0 },
    ...{
      compression: usualCompression,
      space: createScratchSpace(limits, unlimitedSpace.promise(0)),
    },
    ...{ log: (line: string) => void lines.push(line), signal: stopped },
  };
  await assertNeverHeld(() =>
    assert.rejects(squashImage({ layers: [], tree }, options), /stopped after the count/),
  );
  assert.match(lines.join(), new RegExp(`${count + 2} entries`));
});

test('the files of a layer are put in order in turns', async () => {
  await using directory = await makeTempDir('many-nodes');
  const path = directory.join('layer');
  await writeFile(path, '');
  const layer: LayerFile = { name: 'layer 1 of 1', path, size: 0, isScratch: false };
  const sink = { begin: async () => {}, add: async () => {} };
  const { signal } = new AbortController();
  // The layer is empty: the conversion ends where it would read the first file.
  await assertNeverHeld(() =>
    assert.rejects(
      writeContents(tree, [layer], sink, signal, async () => {}),
      /changed while/,
    ),
  );
});

test('files are in the order of their entries, each of them once', async () => {
  const nodes = [...(tree.find(['many'])?.children?.values() ?? [])].slice(0, 20_000);
  const inodes = nodes.map(({ inode }) => inode);
  const expected = inodes.toSorted((one, other) => one.entry - other.entry);
  assert.deepEqual(await inEntryOrder([...inodes, ...inodes]), expected);
});

test('the names of an image are written in turns', async () => {
  await using directory = await makeTempDir('many-nodes');
  const names = count / 3;
  const own = new ImageTree(names + 2);
  const many = own.make(['many'], 0, 0);
  for (let at = 0; at < names; at += 1) {
    own.put(many, `file-${(at * step) % names}`, { ...fileOf(at), size: 0 }, 0);
  }
  const limits = { maxEntries: names, maxUnpackedBytes: count, maxScratchBytes: 1e9 };
  const options = {
    ...{ directory: directory.path, output: 'squashfs', offset: 0 },
    compression: usualCompression,
    space: createScratchSpace(limits, unlimitedSpace.promise(0)),
    ...{ log: () => {}, signal: new AbortController().signal },
  };
  await assertNeverHeld(() => squashImage({ layers: [], tree: own }, options));
  const bytes = await readFile(directory.join('squashfs'));
  const read = async (at: number, length: number) => bytes.subarray(at, at + length);
  const squashfs = await openSquashfs(read, bytes.length, 1);
  const found = Array.from(squashfs.entries(names + 2), ({ path }) => path);
  assert.equal(found.length, names + 2);
  assert.ok(found.includes('many/file-99999'));
});

/** Writes what describes an image, in turns, as if its content was written. The files are in one directory. */
async function describeImage(
  image: ImageTree,
  fragmentCount = 0,
  blocksOf: (inode: TreeNode['inode']) => number = () => 0,
): Promise<void> {
  const inodes = new WrittenInodes(image.entries);
  for (const { inode } of image.find(['many'])?.children?.values() ?? []) {
    const blocks = Array.from(
      { length: blocksOf(inode) },
      (_, at) => 50_000 + ((at * step) % 60_000),
    );
    if (blocks.length > 0) inodes.long.set(inodes.indexOf(inode), { start: 0, holes: 0, blocks });
  }
  const fragments = Array.from({ length: fragmentCount }, (_, at) => {
    return { start: at * 100_000 + ((at * step) % 977), word: 90_000 + ((at * step) % 9973) };
  });
  const output = { write: async () => {} };
  const about = { compression: usualCompression, isCompressed: true, time: 0 };
  const { signal } = new AbortController();
  const contents = { fragments, end: 200, inodes };
  await assertNeverHeld(() => writeDescription(image, contents, about, output, signal));
}

test('the places of very many fragments are written in turns', async () => {
  await describeImage(new ImageTree(1), count);
});

test('the lists of blocks of large files are written in turns', async () => {
  const own = new ImageTree(1000);
  const many = own.make(['many'], 0, 0);
  own.put(many, 'one', { ...fileOf(0), size: 100 * 2 ** 30 }, 0);
  for (let at = 0; at < 100; at += 1) own.put(many, `${at}`, { ...fileOf(at), size: 2 ** 31 }, 0);
  await describeImage(own, 0, ({ size }) => size / blockBytes);
});

test('long attributes of many files are written in turns', async () => {
  const own = new ImageTree(1000);
  const many = own.make(['many'], 0, 0);
  let state = 1;
  for (let at = 0; at < 500; at += 1) {
    const value = Buffer.alloc(60_000);
    for (let byte = 0; byte < value.length; byte += 1) {
      state = (state * 48_271) % 0x7fffffff;
      value[byte] = 97 + (state % 20);
    }
    const attributes = [['user.key', value.toString('latin1')]] as const;
    own.put(many, `${at}`, { ...fileOf(at), size: 0, attributes }, 0);
  }
  await describeImage(own);
});

test('an opaque directory of very many files is cleared quickly, and keeps the order of the rest', async () => {
  const own = new ImageTree(2 * count);
  const directory = own.make(['many'], 0, 0);
  for (let at = 0; at < count; at += 1) own.put(directory, `file-${at}`, fileOf(at), 0);
  for (const name of ['z', 'file-7', 'a']) own.put(directory, name, fileOf(0), 1);
  const whiteout = { kind: 'file', mode: 0, mtime: 0, size: 0, link: '' } as const;
  await assertNeverHeld(async () =>
    applyEntry(own, { ...whiteout, path: 'many/.wh..wh..opq' }, 1, 3),
  );
  assert.deepEqual([...(directory.children?.keys() ?? [])], ['file-7', 'z', 'a']);
});
