/** A squashfs of unknown origin, read as the tar file of a layer. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  linkSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  symlinkSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { after, before, test } from 'node:test';
import { Fault } from '../../src/foundation/fault.ts';
import { type BaseNotes, baseLayer } from '../../src/images/sif/base-of-sif.ts';
import { readAttributes } from '../../src/images/sif/squashfs/read/inodes.ts';
import { decompressorOf, Metadata } from '../../src/images/sif/squashfs/read/metadata.ts';
import { openSquashfs } from '../../src/images/sif/squashfs/read/squashfs.ts';
import { makeTempDir, type TempDir } from '../world/temp-dir.ts';
import { requireCommand } from '../world/tools.ts';

const usual = { maxEntries: 10_000, maxUnpackedBytes: 64 * 1024 * 1024 };
let directory: TempDir;

before(async () => {
  requireCommand('mksquashfs');
  directory = await makeTempDir('squashfs');
  makeTree(directory.join('tree'));
  makeSmallTree(directory.join('small'));
});

after(() => directory?.remove());

/** Content that does not compress to nothing. */
function noise(length: number, seed = 1): Buffer {
  const bytes = Buffer.alloc(length);
  let state = seed;
  for (let at = 0; at < length; at += 1) {
    state = (state * 1_103_515_245 + 12_345) & 0x7fffffff;
    bytes[at] = at % 3 === 0 ? 0x20 : state >> 16;
  }
  return bytes;
}

function makeTree(root: string): void {
  const put = (path: string, content: string | Buffer) => {
    mkdirSync(dirname(join(root, path)), { recursive: true });
    writeFileSync(join(root, path), content);
  };
  const block = 128 * 1024;
  for (const [index, size] of [
    0,
    1,
    block - 1,
    block,
    block + 1,
    3 * block,
    40 * block,
  ].entries()) {
    put(`sizes/${size}`, noise(size, index + 1));
  }
  for (let index = 0; index < 1200; index += 1) put(`many/file-${index}`, `content ${index}`);
  put('zeros/inside', Buffer.concat([noise(block), Buffer.alloc(4 * block), noise(10)]));
  put('zeros/all', '');
  truncateSync(join(root, 'zeros/all'), 5 * block + 7);
  put('names/with blank and "quote"\\\n.txt', 'named');
  put(Buffer.from('names/\xff\xfe').toString('latin1'), 'bytes');
  put(`names/${'n'.repeat(255)}/${'m'.repeat(200)}`, 'long');
  put('links/first', 'shared');
  linkSync(join(root, 'links/first'), join(root, 'links/second'));
  linkSync(join(root, 'links/first'), join(root, 'other-name'));
  symlinkSync('../sizes/1', join(root, 'links/relative'));
  symlinkSync(`/${'t'.repeat(300)}`, join(root, 'links/long'));
  put('modes/sticky', 'x');
  chmodSync(join(root, 'modes/sticky'), 0o4711);
  chmodSync(join(root, 'modes'), 0o1777);
  put('.singularity.d/labels.json', '{"Author":"Jane"}');
  put('removed/.wh.name', 'left out');
  mkdirSync(join(root, 'empty'), { mode: 0o700 });
  execFileSync('mkfifo', [join(root, 'pipe')]);
  utimesSync(join(root, 'sizes/1'), 1_000_000_000, 1_000_000_000);
}

function makeSmallTree(root: string): void {
  mkdirSync(join(root, 'one/two'), { recursive: true });
  for (const name of ['one/a', 'one/b', 'one/two/c', 'd']) {
    writeFileSync(join(root, name), noise(5000));
  }
  linkSync(join(root, 'd'), join(root, 'e'));
  symlinkSync('d', join(root, 'f'));
}

function squash(name: string, ...options: readonly string[]): Buffer {
  return squashTree('tree', name, options);
}

function squashTree(tree: string, name: string, options: readonly string[]): Buffer {
  const path = directory.join(name);
  const args = [directory.join(tree), path, '-noappend', '-quiet', '-no-progress', ...options];
  execFileSync('mksquashfs', args, { stdio: ['ignore', 'ignore', 'inherit'] });
  return readFileSync(path);
}

async function tarOf(
  bytes: Buffer,
  limits: typeof usual = usual,
): Promise<{ tar: Buffer; notes: BaseNotes }> {
  const notes: BaseNotes = { leftOut: 0, entries: 0, bytes: 0 };
  const signal = new AbortController().signal;
  const squashfs = await openSquashfs(
    async (offset, length) => bytes.subarray(offset, offset + length),
    bytes.length,
    limits.maxUnpackedBytes,
  );
  const pieces: Buffer[] = [];
  for await (const piece of baseLayer(squashfs, limits, notes, signal)) pieces.push(piece);
  return { tar: Buffer.concat(pieces), notes };
}

/** What is in a tree, by path: kind, mode, owner, time, names, content. */
function listOf(root: string): Map<string, string> {
  const list = new Map<string, string>();
  const walk = (path: string) => {
    const full = join(root, path);
    const stat = lstatSync(full);
    const owner = `${stat.uid}:${stat.gid}`;
    const time = stat.isSymbolicLink() ? '' : Math.floor(stat.mtimeMs / 1000);
    const links = stat.isFile() ? stat.nlink : '';
    const content = stat.isFile()
      ? readFileSync(full).toString('base64')
      : stat.isSymbolicLink()
        ? readlinkSync(full)
        : '';
    list.set(path, `${stat.mode.toString(8)} ${owner} ${time} ${links} ${content}`);
    if (stat.isDirectory()) for (const name of readdirSync(full)) walk(join(path, name));
  };
  walk('.');
  return list;
}

for (const [name, options] of [
  ['gzip', []],
  ['zstd', ['-comp', 'zstd']],
  ['stored', ['-noD', '-noF', '-noI']],
  ['large-blocks', ['-b', '1M', '-no-fragments']],
  ['small-blocks', ['-b', '4K', '-always-use-fragments']],
] as const) {
  test(`a layer has every file of the squashfs: ${name}`, async () => {
    const { tar, notes } = await tarOf(squash(`${name}.sqfs`, ...options));
    const target = directory.join(`${name}.tree`);
    mkdirSync(target);
    execFileSync('tar', ['-xpf', '-', '-C', target], { input: tar });
    const expected = listOf(directory.join('tree'));
    assert.ok(expected.delete('removed/.wh.name'));
    assert.deepEqual(listOf(target), expected);
    assert.equal(notes.leftOut, 1);
    assert.equal(notes.labels, '{"Author":"Jane"}');
  });
}

test('owners and attributes are kept, except those that file systems act on', async () => {
  const pseudo = ['a f 640 0 7 echo a', 'b f 640 3000000 70000 echo b', 'null c 666 0 0 1 3'];
  const bytes = squash(
    'owners.sqfs',
    ...pseudo.flatMap(line => ['-p', line]),
    ...['-xattrs', '-keep-as-directory'],
  );
  const { tar, notes } = await tarOf(bytes);
  const list = execFileSync('tar', ['-tv', '--numeric-owner'], { input: tar }).toString();
  assert.match(list, /^-rw-r----- 0\/7 .* a$/m);
  assert.match(list, /^-rw-r----- 3000000\/70000 .* b$/m);
  assert.doesNotMatch(list, / null$/m);
  assert.equal(notes.leftOut, 2);
});

test('names of attributes are short, and count for the limit of a file', () => {
  const attributesWith = (count: number, nameLength: number, blockBytes = 8192) => {
    const block = (bytes: Buffer) => {
      const head = Buffer.alloc(2);
      head.writeUInt16LE(0x8000 + bytes.length);
      return Buffer.concat([head, bytes]);
    };
    const attribute = Buffer.alloc(8 + nameLength, 'a');
    attribute.fill(0, 0, 4);
    attribute.writeUInt16LE(nameLength, 2);
    attribute.fill(0, 4 + nameLength);
    const all = Buffer.concat(Array.from({ length: count }, () => attribute));
    const values = Array.from({ length: Math.ceil(all.length / blockBytes) }, (_, index) =>
      block(all.subarray(index * blockBytes, (index + 1) * blockBytes)),
    );
    const record = Buffer.alloc(16);
    record.writeUInt32LE(count, 8);
    const before = Buffer.concat([...values, block(record)]);
    const table = Buffer.alloc(24);
    table.writeUInt32LE(1, 8);
    table.writeBigUInt64LE(BigInt(before.length - 18), 16);
    const metadata = new Metadata(Buffer.concat([before, table]), 0, decompressorOf(1));
    return readAttributes(metadata, before.length).of(0);
  };
  assert.equal(attributesWith(1000, 255).length, 1000);
  assert.throws(() => attributesWith(1, 256), /attribute with too long a name/);
  assert.throws(() => attributesWith(1000, 65_000), /attribute with too long a name/);
  // Each block costs a call of its decompressor.
  assert.throws(() => attributesWith(1000, 255, 1), /a short block/);
});

test('limits stop the reading', async () => {
  const bytes = squash('limits.sqfs');
  await assert.rejects(
    tarOf(bytes, { ...usual, maxEntries: 1000 }),
    /exceeds the limit of 1000 files/,
  );
  await assert.rejects(
    tarOf(bytes, { ...usual, maxUnpackedBytes: 6 * 1024 * 1024 }),
    /exceeds the limit of 6291456 /,
  );
  await assert.rejects(
    tarOf(bytes, { ...usual, maxUnpackedBytes: 100_000 }),
    /exceeds the limit of 100000 /,
  );
});

test('a false size costs neither time nor memory', async () => {
  const bytes = squashTree('small', 'sizes.sqfs', ['-noI', '-noD', '-no-fragments', '-b', '4K']);
  const inodes = Number(bytes.readBigUInt64LE(64));
  // The inode of the file with two names is an extended one: its size becomes 1 TiB, of blocks of zeros.
  const size = bytes.indexOf(Buffer.from([0x88, 0x13, 0, 0, 0, 0, 0, 0]), inodes);
  assert.ok(size > inodes);
  bytes.writeBigUInt64LE(2n ** 40n, size);
  await assert.rejects(
    tarOf(bytes, { ...usual, maxUnpackedBytes: 2 ** 50 }),
    /is broken \(its squashfs|more than/,
  );
  await assert.rejects(tarOf(bytes), /exceeds the limit of 67108864 /);
});

test('unsupported compression is refused with a remedy', async () => {
  const bytes = squash('xz.sqfs', '-comp', 'xz');
  await assert.rejects(
    tarOf(bytes),
    /compressed with xz, and only gzip and zstd .* build it again/,
  );
});

test('damage causes only a failure', async () => {
  for (const options of [['-noI', '-noD', '-noF', '-noX'], []]) {
    const whole = squashTree('small', 'damaged.sqfs', ['-b', '4K', ...options]);
    const described = Number(whole.readBigUInt64LE(64));
    let state = 7;
    const next = (below: number) => {
      state = (state * 1_103_515_245 + 12_345) & 0x7fffffff;
      return (state >> 8) % below;
    };
    for (let round = 0; round < 500; round += 1) {
      const bytes = Buffer.from(whole);
      for (let count = 0; count <= next(4); count += 1) {
        // Most of it in what describes the files.
        const from = round % 5 === 0 ? 0 : described;
        bytes[round % 10 === 1 ? next(96) : from + next(bytes.length - from)] = next(256);
      }
      try {
        const { notes } = await tarOf(bytes, { maxEntries: 30, maxUnpackedBytes: 2 ** 20 });
        assert.ok(notes.entries <= 30);
      } catch (error) {
        assert.ok(error instanceof Fault, `round ${round}: ${(error as Error).stack}`);
      }
    }
  }
});

test('a directory that contains itself is refused', async () => {
  const bytes = squashTree('small', 'circle.sqfs', ['-noI', '-noD']);
  const root = Number(bytes.readBigUInt64LE(32));
  const name = bytes.indexOf('two', Number(bytes.readBigUInt64LE(72)));
  // All inodes are in the first block: the root directory takes the place of another one.
  bytes.writeUInt16LE(root, name - 8);
  await assert.rejects(tarOf(bytes), /a directory of it is in two places/);
});
