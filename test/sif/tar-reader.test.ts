import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import type { TarEntry, TarKind } from '../../src/archives/tar-entry.ts';
import { TarReader } from '../../src/archives/tar-reader.ts';
import { gnuHeader, tarEnd } from '../../src/archives/tar-writer.ts';
import { paxRecords, type TarPart, tarOf } from './tar-file.ts';

interface Seen extends TarEntry {
  readonly content?: string;
}

/** What the reader reports of a tar file that comes in pieces of these sizes, the last one again and again. */
function seen(tar: Buffer, sizes: readonly number[] = [], wants = true): Seen[] {
  const entries: { entry: TarEntry; parts: Buffer[] }[] = [];
  const reader = new TarReader({
    entry(entry) {
      entries.push({ entry, parts: [] });
      return wants;
    },
    content(bytes) {
      entries.at(-1)?.parts.push(Buffer.from(bytes));
    },
  });
  for (let at = 0, piece = 0; at < tar.length; piece += 1) {
    const size = sizes[Math.min(piece, sizes.length - 1)] ?? tar.length;
    reader.write(tar.subarray(at, at + size));
    at += size;
  }
  reader.end();
  return entries.map(({ entry, parts }) => {
    const content = Buffer.concat(parts);
    assert.equal(content.length % 512, 0);
    return { ...entry, ...(wants ? { content: content.toString('latin1', 0, entry.size) } : {}) };
  });
}

const plain = { kind: 'file', mode: 0o644, mtime: 0, size: 0, link: '', content: '' } as const;
const longName = `${'directory-name/'.repeat(9)}file`;
const longLink = `../${'directory-name/'.repeat(9)}file`;

const readable: Readonly<Record<string, { tar: TarPart[]; expected: Partial<Seen>[] }>> = {
  'a file': {
    tar: [{ name: 'a', content: 'text', mode: 0o4755, mtime: 1_600_000_000 }],
    expected: [{ path: 'a', size: 4, content: 'text', mode: 0o4755, mtime: 1_600_000_000 }],
  },
  'every kind': {
    tar: [
      { name: 'd/', type: 'directory', mode: 0o700 },
      { name: 's', type: 'symlink', link: '../x' },
      { name: 'l', type: 'link', link: 'd/x' },
      { name: 'c', type: 'character', device: [1, 3] },
      { name: 'b', type: 'block', device: [259, 70_000], numbers: 'base-256' },
      { name: 'f', type: 'fifo' },
      { name: 'p', type: 'contiguous', content: 'x' },
    ],
    expected: [
      { path: 'd/', kind: 'directory', mode: 0o700 },
      { path: 's', kind: 'symlink', link: '../x' },
      { path: 'l', kind: 'link', link: 'd/x' },
      { path: 'c', kind: 'character-device', device: { major: 1, minor: 3 } },
      { path: 'b', kind: 'block-device', device: { major: 259, minor: 70_000 } },
      { path: 'f', kind: 'fifo' },
      { path: 'p', kind: 'file', size: 1, content: 'x' },
    ],
  },
  'V7, which has no directories': {
    tar: [
      { name: 'd/', type: 'v7', magic: '\0' },
      { name: 'f', type: 'v7', magic: '\0', content: 'x' },
    ],
    expected: [
      { path: 'd/', kind: 'directory' },
      { path: 'f', size: 1, content: 'x' },
    ],
  },
  'names of GNU and PAX': {
    tar: [
      { name: longName, long: 'gnu' },
      { name: longName },
      { name: 's', type: 'symlink', link: longLink, long: 'gnu' },
      { name: 's', type: 'symlink', link: longLink },
      { name: 'next' },
    ],
    expected: [
      { path: longName },
      { path: longName },
      { path: 's', kind: 'symlink', link: longLink },
      { path: 's', kind: 'symlink', link: longLink },
      { path: 'next' },
    ],
  },
  'a prefix of ustar and star, but not the times of GNU': {
    tar: [
      { name: 'name', prefix: 'some/where' },
      { name: 'name', prefix: '14112375462', magic: 'ustar  \0' },
      { name: 'name', prefix: `${'p'.repeat(131)}14112375462 14112375462 ${'\0'.repeat(8)}tar\0` },
    ],
    expected: [{ path: 'some/where/name' }, { path: 'name' }, { path: `${'p'.repeat(131)}/name` }],
  },
  'names that are not UTF-8': {
    tar: [
      { name: Buffer.from('\xe9', 'latin1') },
      { name: 'x', pax: { path: Buffer.from('\xff\xfe', 'latin1') } },
      { name: 'ü' },
    ],
    expected: [{ path: '\xe9' }, { path: '\xff\xfe' }, { path: '\xc3\xbc' }],
  },
  'numbers in base 256': {
    tar: [{ name: 'a', content: 'x', mtime: 8_589_934_592, uid: 4e9, numbers: 'base-256' }],
    expected: [{ path: 'a', size: 1, content: 'x', mtime: 8_589_934_592 }],
  },
  'a time before 1970': {
    tar: [{ name: 'a', mtime: -300, numbers: 'base-256' }],
    expected: [{ path: 'a', mtime: -300 }],
  },
  'size and time of PAX': {
    tar: [{ name: 'a', content: 'four', pax: { size: '4', mtime: '1600000000.75' } }],
    expected: [{ path: 'a', size: 4, content: 'four', mtime: 1_600_000_000 }],
  },
  'PAX records that are reset': {
    tar: [{ name: 'a', pax: { path: '', linkpath: '' } }],
    expected: [{ path: 'a' }],
  },
  'extended attributes with any bytes': {
    tar: [{ name: 'a', pax: { 'SCHILY.xattr.user.x': Buffer.from('\0=\n 7 x', 'latin1') } }],
    expected: [{ path: 'a', attributes: [['user.x', '\0=\n 7 x']] }],
  },
  'a global header, which counts for nothing': {
    tar: [{ name: 'g', type: 'global-pax', content: paxRecords({ path: 'no' }) }, { name: 'a' }],
    expected: [{ path: 'a' }],
  },
  'a global header, which ends what is before it as in Go': {
    tar: [
      { name: 'x', type: 'gnu-name', content: 'long\0' },
      { name: 'x', type: 'gnu-link', content: 'long\0' },
      { name: 'x', type: 'pax', content: paxRecords({ mtime: '9' }) },
      { name: 'g', type: 'global-pax', content: paxRecords({ comment: 'no' }) },
      { name: 'a', type: 'symlink', link: 'b' },
    ],
    expected: [{ path: 'a', kind: 'symlink', link: 'b' }],
  },
  'links and directories with a size, which have no content': {
    tar: [
      { name: 'l', type: 'link', link: 'x', pax: { size: '70000' } },
      { name: 'd', type: 'directory', pax: { size: '512' } },
      { name: 'a', content: 'x' },
    ],
    expected: [
      { path: 'l', kind: 'link', link: 'x' },
      { path: 'd', kind: 'directory', mode: 0o755 },
      { path: 'a', size: 1, content: 'x' },
    ],
  },
};

for (const [name, { tar, expected }] of Object.entries(readable)) {
  test(`reads ${name}`, () => {
    const whole = expected.map(entry => ({ ...plain, ...entry }));
    const bytes = tarOf(tar);
    assert.deepEqual(seen(bytes), whole);
    assert.deepEqual(seen(bytes, [1]), whole);
    assert.deepEqual(seen(tarOf(tar, { end: false })), whole);
    assert.deepEqual(seen(Buffer.concat([bytes, Buffer.from('any data after the end')])), whole);
  });
}

test('the result does not depend on the size of the pieces', () => {
  const parts = Object.values(readable).flatMap(({ tar }) => tar);
  const bytes = tarOf([...parts, { name: 'big', content: 'x'.repeat(5000) }]);
  const whole = seen(bytes);
  const names = seen(bytes, [], false);
  assert.deepEqual(
    names,
    whole.map(({ content: _, ...entry }) => entry),
  );
  fc.assert(
    fc.property(fc.array(fc.integer({ min: 1, max: 3000 }), { minLength: 1 }), sizes => {
      assert.deepEqual(seen(bytes, sizes), whole);
    }),
    { numRuns: 50 },
  );
});

const file = { name: 'a', content: 'x'.repeat(600) };
const whole = tarOf([file]);
const damaged = Buffer.from(whole);
damaged[0] = 0x62;

const unreadable: Readonly<Record<string, { tar: Buffer; message: RegExp }>> = {
  'something else': { tar: Buffer.from('<html>'.repeat(200)), message: /not a tar archive/ },
  'a damaged header': { tar: damaged, message: /not a tar archive, or is damaged/ },
  'half a header': { tar: whole.subarray(0, 100), message: /ends in the middle/ },
  'half a file': { tar: whole.subarray(0, 1000), message: /ends in the middle/ },
  'a file without its padding': { tar: whole.subarray(0, 1200), message: /ends in the middle/ },
  'half a long name': {
    tar: tarOf([{ name: longName, long: 'gnu' }]).subarray(0, 600),
    message: /ends in the middle/,
  },
  'an empty block between': {
    tar: Buffer.concat([tarOf([file], { end: false }), Buffer.alloc(512), whole]),
    message: /goes on after an empty/,
  },
  'a sparse file of GNU': {
    tar: tarOf([{ name: 'thin', type: 'gnu-sparse' }]),
    message: /sparse file, "thin", .* without 'tar --sparse'/,
  },
  'a sparse file of PAX': {
    tar: tarOf([{ name: 'x', pax: { 'GNU.sparse.major': '1', 'GNU.sparse.name': 'thin' } }]),
    message: /sparse file/,
  },
  'a sparse file whose parts overlap': {
    tar: tarOf([
      { name: 'x', content: 'abc', pax: { 'GNU.sparse.map': '0,2,1,1', 'GNU.sparse.size': '9' } },
    ]),
    message: /sparse file with a damaged PAX header/,
  },
  'a sparse file with more than its parts': {
    tar: tarOf([
      { name: 'x', content: 'abc', pax: { 'GNU.sparse.map': '0,2', 'GNU.sparse.size': '9' } },
    ]),
    message: /sparse file with a damaged PAX header/,
  },
  'a sparse file without a map': {
    tar: tarOf([
      {
        ...{ name: 'x', content: 'x'.repeat(600) },
        pax: {
          'GNU.sparse.major': '1',
          'GNU.sparse.minor': '0',
          'GNU.sparse.realsize': '9',
        },
      },
    ]),
    message: /sparse file with a damaged PAX header/,
  },
  'another type': {
    tar: tarOf([{ name: 'v', type: 'gnu-volume' }]),
    message: /unknown tar type, "v"/,
  },
  'an endless header': {
    tar: tarOf([{ name: 'x', type: 'pax', content: 'x'.repeat(2 ** 20 + 1) }]),
    message: /longer than 1 MiB/,
  },
  'a negative size': {
    tar: tarOf([
      { name: 'x', type: 'pax', content: '' },
      { name: 'a', pax: { size: '-1' } },
    ]),
    message: /damaged PAX/,
  },
  'an impossible size': {
    tar: tarOf([{ name: 'a', pax: { size: '99999999999999999999' } }]),
    message: /damaged PAX/,
  },
  'a time that is none': {
    tar: tarOf([{ name: 'a', pax: { mtime: 'x' } }]),
    message: /damaged PAX/,
  },
  'a name with NUL': { tar: tarOf([{ name: 'a', pax: { path: 'a\0b' } }]), message: /damaged PAX/ },
  'PAX records too long': {
    tar: tarOf([{ name: 'x', type: 'pax', content: '99 path=a\n' }]),
    message: /damaged PAX/,
  },
  'PAX records without a length': {
    tar: tarOf([{ name: 'x', type: 'pax', content: 'path=a\n' }]),
    message: /damaged PAX/,
  },
  'PAX records without an end': {
    tar: tarOf([{ name: 'x', type: 'pax', content: '10 path=abc' }]),
    message: /damaged PAX/,
  },
};

for (const [name, { tar, message }] of Object.entries(unreadable)) {
  test(`refuses ${name}`, () => {
    assert.throws(() => seen(tar), { name: 'Error', message });
    assert.throws(() => seen(tar, [7]), { message });
  });
}

const kinds: readonly TarKind[] = ['file', 'directory', 'symlink', 'link', 'fifo', 'block-device'];
const names = fc
  .array(fc.integer({ min: 1, max: 255 }), { minLength: 1, maxLength: 300 })
  .map(bytes => Buffer.from(bytes).toString('latin1'));
const entries: fc.Arbitrary<TarEntry> = fc
  .record({
    path: names,
    kind: fc.constantFrom(...kinds),
    mode: fc.nat(0o7777),
    mtime: fc.nat(2 ** 32 - 1),
    size: fc.oneof(fc.nat(2000), fc.nat(2 ** 45)),
    link: names,
    device: fc.record({ major: fc.nat(0xfff), minor: fc.nat(0xfffff) }),
  })
  .map(({ size, link, device, ...entry }) => ({
    ...entry,
    size: entry.kind === 'file' ? size : 0,
    link: entry.kind === 'symlink' || entry.kind === 'link' ? link : '',
    ...(entry.kind === 'block-device' ? { device: { ...device } } : {}),
  }));

test('a written header is read back unchanged', () => {
  fc.assert(
    fc.property(entries, entry => {
      const found: TarEntry[] = [];
      const reader = new TarReader({
        entry(read) {
          found.push(read);
          return false;
        },
        content() {},
      });
      reader.write(gnuHeader(entry));
      assert.deepEqual(found, [entry]);
    }),
  );
});

test('times outside the range of squashfs are written as the nearest possible time', () => {
  const entry = { path: 'a', kind: 'file', mode: 0, size: 0, link: '' } as const;
  for (const [mtime, expected] of [
    [-1, 0],
    [2 ** 33, 2 ** 32 - 1],
  ] as const) {
    const [read] = seen(Buffer.concat([gnuHeader({ ...entry, mtime }), tarEnd]));
    assert.equal(read?.mtime, expected);
  }
});
