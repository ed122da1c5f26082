/** Random and odd trees, written as a squashfs, and read by unsquashfs, by the kernel's rules, and by our own reader. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { open, readdir, readFile, readlink, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { isDeepStrictEqual } from 'node:util';
import { ImageTree } from '../../src/images/sif/layers/tree.ts';
import type { Compression } from '../../src/images/sif/squashfs/compression.ts';
import { openSquashfs } from '../../src/images/sif/squashfs/read/squashfs.ts';
import { BlockThreads } from '../../src/images/sif/squashfs/write/block-threads.ts';
import { ContentWriter } from '../../src/images/sif/squashfs/write/content-writer.ts';
import { writeDescription } from '../../src/images/sif/squashfs/write/description-writer.ts';
import { openOutput } from '../../src/images/sif/squashfs/write/squashfs-output.ts';
import { WrittenInodes } from '../../src/images/sif/squashfs/write/written-inodes.ts';
import { makeTempDir } from '../world/temp-dir.ts';
import { type Conversion, convert } from './conversion.ts';
import { attributesOf, type MountedSquashfs, mountSquashfs } from './mounted-squashfs.ts';
import { type TarPart, tarLayer } from './tar-file.ts';

const block = 128 * 1024;
const gzip: Compression = { mode: 'gzip', level: 6 };
const zstd: Compression = { mode: 'zstd', level: 9 };

/** The same numbers for the same seed. */
function numbers(seed: number): (below: number) => number {
  let state = seed;
  return below => {
    state = (state * 48_271) % 0x7fffffff;
    return state % below;
  };
}

function contentOf(next: (below: number) => number): Buffer {
  const sizes = [0, 1, 100, 5000, block - 1, block, block + 1, 2 * block, 3 * block + 77];
  const content = Buffer.alloc(sizes[next(sizes.length)] ?? 0);
  const kind = next(4);
  // Some are equal to others, some are all holes or have one.
  if (kind === 0) content.fill(`${next(3)} and so on. `);
  if (kind === 1) for (let at = 0; at < content.length; at += 1) content[at] = next(256);
  if (kind === 2) content.fill('x', content.length - Math.min(content.length, 10));
  return content;
}

/** A part whose names have one character per byte. */
type RandomPart = TarPart & { readonly name: string; readonly link?: string };

function layerOf(parts: readonly RandomPart[], compression?: 'gzip' | 'none') {
  const bytes = (text: string) => Buffer.from(text, 'latin1');
  const named = parts.map(part => ({ ...part, name: bytes(part.name) }));
  return tarLayer(
    named.map(part => (part.link ? { ...part, link: bytes(part.link) } : part)),
    compression,
  );
}

/** A random tree: files, directories, links of both kinds, attributes, names of any bytes. */
function randomParts(seed: number): RandomPart[] {
  const next = numbers(seed);
  const directories = [''];
  const files: string[] = [];
  const parts: RandomPart[] = [];
  const mode = () => next(0o10000);
  for (let index = 0; index < 150; index += 1) {
    const parent = directories[next(directories.length)] ?? '';
    const name = `${parent}${String.fromCharCode(33 + next(14), 128 + next(128))}${index}${'n'.repeat(next(8) === 0 ? 240 : 0)}`;
    const mtime = next(2 ** 31);
    const kind = next(10);
    const pax = next(5) === 0 ? { 'SCHILY.xattr.user.key': `value ${next(4)}` } : {};
    if (kind < 2 && name.length < 1000) {
      parts.push({ name: `${name}/`, type: 'directory', mode: mode(), mtime, pax });
      directories.push(`${name}/`);
    } else if (kind === 2) {
      parts.push({ name, type: 'symlink', link: 't'.repeat(1 + next(300)), mtime });
    } else if (kind === 3 && files.length > 0) {
      parts.push({ name, type: 'link', link: files[next(files.length)] ?? '' });
    } else {
      parts.push({ name, mode: mode(), mtime, content: contentOf(next), pax });
      files.push(name);
    }
  }
  return parts;
}

/** What our own reader finds, in the form of `Conversion.tree`. */
async function readTree({ sif, describe }: Conversion): Promise<Record<string, string>> {
  const { squashfs } = await describe();
  const { offset = 0, size = 0 } = squashfs ?? {};
  const bytes = (await readFile(sif.path)).subarray(offset, offset + size);
  const read = async (at: number, length: number) => bytes.subarray(at, at + length);
  const opened = await openSquashfs(read, size, 1e9);
  const tree: Record<string, string> = {};
  for (const { path, inode } of opened.entries(1e6)) {
    const mode = (inode.mode & 0o7777).toString(8).padStart(4, '0');
    if (inode.kind === 'symlink') tree[path] = `symlink ${inode.target}`;
    else if (inode.kind === 'file') {
      const hash = createHash('sha256');
      let length = 0;
      for await (const piece of opened.content(inode)) {
        hash.update(piece);
        length += piece.length;
      }
      assert.equal(length, inode.size);
      tree[path] = `file ${mode} ${length} ${hash.digest('hex').slice(0, 16)}`;
    } else tree[path || '/'] = `${inode.kind} ${mode}`;
  }
  return tree;
}

/** What is expected of parts: their content or target, by name. */
function expectedOf(parts: readonly RandomPart[]): Record<string, string> {
  const tree: Record<string, string> = {};
  for (const { name, type, content = '', link = '', mode = 0 } of parts) {
    const path = name.replace(/\/$/, '');
    const shown = mode.toString(8).padStart(4, '0');
    if (type === 'symlink') tree[path] = `symlink ${link}`;
    else if (type === 'link') tree[path] = tree[link] ?? '';
    else if (type === 'directory') tree[path] = `directory ${shown}`;
    else {
      const digest = createHash('sha256').update(content).digest('hex').slice(0, 16);
      tree[path] = `file ${shown} ${Buffer.byteLength(content)} ${digest}`;
    }
  }
  return tree;
}

for (const [seed, compression] of [gzip, zstd, gzip, zstd].entries()) {
  test(`a random tree is read as it was written: ${compression.mode}, ${seed}`, async () => {
    const parts = randomParts(seed + 1);
    // Other compression decides whether content is stored.
    const layer = layerOf(parts, seed < 2 ? 'gzip' : 'none');
    await using conversion = await convert([layer], { compression });
    const theirs = await conversion.tree();
    const own = await readTree(conversion);
    assert.deepEqual(own, theirs);
    const expected = expectedOf(parts);
    assert.deepEqual(
      Object.fromEntries(Object.keys(expected).map(key => [key, own[key]])),
      expected,
    );
  });
}

/** Mounts the squashfs of a SIF file. */
async function mounted({ sif, describe }: Conversion): Promise<MountedSquashfs> {
  const { squashfs } = await describe();
  return mountSquashfs(sif.path, squashfs?.offset ?? 0);
}

for (const compression of [gzip, zstd]) {
  test(`the kernel finds every name, content, hole and attribute: ${compression.mode}`, async () => {
    const holes = Buffer.alloc(5 * block + 9);
    holes.fill('x', block, block + 5);
    const noise = Buffer.from(Array.from({ length: block * 2 }, numbers(5).bind(null, 256)));
    const parts: TarPart[] = [
      ...Array.from({ length: 3000 }, (_, at) => ({
        name: `many/a-rather-long-name-${at}`,
        content: `${at}`,
      })),
      { name: 'holes', content: holes },
      { name: 'all-holes', content: Buffer.alloc(3 * block) },
      { name: 'noise', content: noise },
      { name: 'twice', content: holes },
      { name: `${'d'.repeat(255)}/${'f'.repeat(255)}`, content: 'deep' },
      { name: 'long-link', type: 'symlink', link: 't'.repeat(4000) },
      {
        name: 'with',
        content: 'x',
        pax: {
          'SCHILY.xattr.user.one': 'first',
          'SCHILY.xattr.user.two': '2'.repeat(65_536),
          'SCHILY.xattr.security.capability': Buffer.from(
            '0100000200040000000000000000000000000000',
            'hex',
          ),
        },
      },
      { name: 'link', type: 'link', link: 'with' },
      { name: 'empty/', type: 'directory', pax: { 'SCHILY.xattr.user.one': 'of a directory' } },
      { name: 'dev/last', type: 'character', device: [4095, 1_048_575] },
    ];
    await using conversion = await convert([tarLayer(parts)], { compression });
    await using squashfs = await mounted(conversion);
    const at = (name: string) => join(squashfs.path, name);
    assert.equal((await readdir(at('many'))).length, 3000);
    for (const index of [0, 1, 999, 1500, 2999]) {
      const content = await readFile(at(`many/a-rather-long-name-${index}`), 'utf8');
      assert.equal(content, `${index}`);
    }
    await assert.rejects(stat(at('many/nothing')), { code: 'ENOENT' });
    for (const name of ['holes', 'twice']) assert.ok(holes.equals(await readFile(at(name))));
    assert.ok(Buffer.alloc(3 * block).equals(await readFile(at('all-holes'))));
    assert.ok(noise.equals(await readFile(at('noise'))));
    assert.equal(await readFile(at(`${'d'.repeat(255)}/${'f'.repeat(255)}`), 'utf8'), 'deep');
    assert.equal(await readlink(at('long-link')), 't'.repeat(4000));
    const [one, other] = [await stat(at('with')), await stat(at('link'))];
    assert.deepEqual([one.nlink, one.ino], [2, other.ino]);
    const names = await readdir(squashfs.path, { withFileTypes: true });
    const directories = names.filter(name => name.isDirectory()).length;
    assert.equal((await stat(squashfs.path)).nlink, 2 + directories);
    assert.equal((await stat(at('empty'))).nlink, 2);
    // Linux stores 12 bits of the first number between bits of the second one, and the C library has a form of its own.
    const format = ['-c', '%t %T', at('dev/last')];
    assert.equal(execFileSync('stat', format).toString().trim(), 'fff fffff');
    const expected = { 'user.one': 'first', 'user.two': '2'.repeat(65_536) };
    const found = attributesOf(['link', 'with', 'empty', 'holes'].map(at));
    const attributes = [expected, expected, { 'user.one': 'of a directory' }, {}];
    assert.ok(isDeepStrictEqual(found, attributes), JSON.stringify(found).slice(0, 500));
  });
}

test('the kernel finds each of 100,000 names in one directory', async () => {
  const count = 100_000;
  const parts = Array.from({ length: count }, (_, index) => ({ name: `many/name-${index}` }));
  await using conversion = await convert([tarLayer(parts)]);
  await using squashfs = await mounted(conversion);
  const many = join(squashfs.path, 'many');
  const sorted = parts.map(({ name }) => name.slice('many/'.length)).sort();
  const [first = '', middle = '', last = ''] = [0, count / 2, count - 1].map(at => sorted[at]);
  const some = sorted.filter((_, at) => at % 997 === 0);
  for (const name of [first, middle, last, ...some])
    assert.ok((await stat(join(many, name))).isFile());
  for (const name of ['a', `${middle}-`, `${last}0`, 'name', 'z']) {
    await assert.rejects(stat(join(many, name)), { code: 'ENOENT' });
  }
  const found = await readdir(many);
  assert.deepEqual(found, sorted);
});

test('a file of more than 4 GiB is read to its end, and its holes take no space', async () => {
  const size = 2 ** 32 + 2 ** 20 + 3;
  const end = 'the end';
  const map = `1\n${size - end.length}\n${end.length}\n`;
  const pax = {
    'GNU.sparse.major': '1',
    'GNU.sparse.minor': '0',
    'GNU.sparse.realsize': String(size),
  };
  const part = { name: 'large', content: `${map.padEnd(512, '\0')}${end}`, pax };
  await using conversion = await convert([tarLayer([part, { name: 'after', content: 'it' }])]);
  assert.ok(conversion.sif.size < 1e6, `${conversion.sif.size} bytes`);
  await using squashfs = await mounted(conversion);
  const path = join(squashfs.path, 'large');
  const status = await stat(path);
  assert.equal(status.size, size);
  assert.ok(status.blocks <= (2 * block) / 512, `${status.blocks} blocks`);
  await using file = await open(path);
  for (const [position, expected] of [
    [size - end.length - 3, `\0\0\0${end}`],
    [2 ** 32 - 2, '\0\0\0\0'],
    [size, ''],
  ] as const) {
    const { buffer, bytesRead } = await file.read(Buffer.alloc(100), 0, expected.length, position);
    assert.equal(buffer.toString('latin1', 0, bytesRead), expected);
  }
  assert.equal(await readFile(join(squashfs.path, 'after'), 'utf8'), 'it');
});

test('content beyond 4 GiB of a squashfs is found', async () => {
  await using directory = await makeTempDir('far');
  const path = directory.join('squashfs');
  const tree = new ImageTree(10);
  const long = Buffer.alloc(2 * block + 5, 'It goes on. ');
  const short = Buffer.from('short');
  const inodes = new WrittenInodes(3);
  {
    await using file = await open(path, 'wx');
    const output = openOutput(file, 0, { take() {}, write() {} });
    const threads = new BlockThreads(gzip);
    await using _ = { [Symbol.asyncDispose]: () => threads.end() };
    const content = new ContentWriter(inodes, threads, output, 2 ** 32 + block, 2);
    for (const [name, bytes] of [
      ['long', long],
      ['short', short],
    ] as const) {
      const about = {
        kind: 'file',
        mode: 0o644,
        mtime: 0,
        target: '',
        layer: 0,
        entry: 0,
      } as const;
      const inode = { ...about, size: bytes.length, bytes, device: undefined };
      const index = inodes.indexOf(tree.put(tree.root, name, inode, 0).inode);
      inodes.links[index] = 1;
      await content.begin(index, bytes.length, false);
      await content.add(bytes);
    }
    const contents = { end: await content.finish(), fragments: content.fragments, inodes };
    const about = { compression: gzip, isCompressed: true, time: 0 };
    await writeDescription(tree, contents, about, output, new AbortController().signal);
  }
  await using squashfs = await mountSquashfs(path, 0);
  assert.ok(long.equals(await readFile(join(squashfs.path, 'long'))));
  assert.ok(short.equals(await readFile(join(squashfs.path, 'short'))));
});

test('a device with a name in /dev and one elsewhere is an empty file elsewhere', async () => {
  const device = [8, 1] as const;
  const parts: TarPart[] = [
    { name: 'first', type: 'block', device },
    { name: 'dev/', type: 'directory' },
    { name: 'dev/disk', type: 'link', link: 'first' },
    { name: 'last', type: 'link', link: 'first' },
  ];
  await using conversion = await convert([tarLayer(parts)]);
  const { first, last, 'dev/disk': disk } = await conversion.tree();
  const empty = 'file 0644 0 e3b0c44298fc1c14';
  assert.deepEqual({ first, last, disk }, { first: empty, last: empty, disk: 'block 0644 8:1' });
});

test('the same tree gives the same bytes on every machine', async () => {
  const digests: string[] = [];
  for (const compression of [gzip, { mode: 'gzip', level: 9 } as const]) {
    await using conversion = await convert([layerOf(randomParts(7))], { compression });
    digests.push(conversion.sif.digest);
  }
  assert.deepEqual(digests, [
    'sha256:55e06bb2ae5857f9f184675869ae64a15c92df6b490509f28430a9bbd02957ef',
    'sha256:41df813ac24628074a89f903d48883665a542001e3c7eef6d590206fd89f73ba',
  ]);
});
