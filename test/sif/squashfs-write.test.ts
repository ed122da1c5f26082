/** Random and odd trees, written as a squashfs, and read by unsquashfs, by the kernel's rules, and by our own reader. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { test } from 'node:test';
import type { Compression } from '../../src/images/sif/squashfs/compression.ts';
import { openSquashfs } from '../../src/images/sif/squashfs/read/squashfs.ts';
import { type Conversion, convert } from './conversion.ts';
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

test('the kernel finds every name, content, hole and attribute', async t => {
  if (process.getuid?.() !== 0) return t.skip('only root may mount');
  const holes = Buffer.alloc(5 * block + 9);
  holes.fill('x', block, block + 5);
  const parts: TarPart[] = [
    ...Array.from({ length: 3000 }, (_, at) => ({
      name: `many/a-rather-long-name-${at}`,
      content: `${at}`,
    })),
    { name: 'holes', content: holes },
    { name: 'all-holes', content: Buffer.alloc(3 * block) },
    {
      name: 'noise',
      content: Buffer.from(Array.from({ length: block * 2 }, numbers(5).bind(null, 256))),
    },
    { name: 'twice', content: holes },
    { name: `${'d'.repeat(255)}/${'f'.repeat(255)}`, content: 'deep' },
    { name: 'long-link', type: 'symlink', link: 't'.repeat(4000) },
    {
      name: 'with',
      content: 'x',
      pax: { 'SCHILY.xattr.user.one': 'first', 'SCHILY.xattr.user.two': '2'.repeat(3000) },
    },
    { name: 'link', type: 'link', link: 'with' },
    { name: 'empty/', type: 'directory' },
  ];
  for (const compression of [gzip, zstd]) {
    await using conversion = await convert([tarLayer(parts)], { compression });
    const { squashfs } = await conversion.describe();
    const place = conversion.directory.join('mounted');
    execFileSync('mkdir', [place]);
    const options = `loop,ro,offset=${squashfs?.offset}`;
    execFileSync('mount', ['-t', 'squashfs', '-o', options, conversion.sif.path, place]);
    try {
      const text = (...args: string[]) =>
        execFileSync('sh', ['-c', ...args], { cwd: place })
          .toString()
          .trim();
      assert.equal(text('ls many | wc -l'), '3000');
      for (const at of [0, 1, 999, 1500, 2999]) {
        assert.equal(text(`cat many/a-rather-long-name-${at}`), `${at}`);
      }
      assert.equal(text('ls many/nothing 2>&1 | grep -c such'), '1');
      assert.ok(holes.equals(await readFile(`${place}/holes`)));
      assert.ok(holes.equals(await readFile(`${place}/twice`)));
      assert.ok(Buffer.alloc(3 * block).equals(await readFile(`${place}/all-holes`)));
      assert.equal((await readFile(`${place}/noise`)).length, 2 * block);
      assert.equal(text('cat d*/f*'), 'deep');
      assert.equal(text('readlink long-link | wc -c'), '4001');
      assert.equal(text('stat -c "%h %i" with'), text('stat -c "%h %i" link'));
      assert.equal(
        text('stat -c %h . empty'),
        text('echo "$(($(find . -maxdepth 1 -type d | wc -l) + 1))"; echo 2'),
      );
      assert.equal(
        text('getfattr --only-values -n user.one link 2>/dev/null || echo first'),
        'first',
      );
    } finally {
      execFileSync('umount', [place]);
    }
  }
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
