/** How the placeholder in the files of packages becomes the prefix of an environment. `judge.test.ts` compares with rattler. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { binaryPatches } from '../../../src/conda/installing/prefix/binary-patches.ts';
import {
  type ByteSource,
  chunkBytes,
  encodedPrefixes,
  offsetsOf,
  type Patch,
  patchedChunks,
  patchedSize,
  readOnce,
} from '../../../src/conda/installing/prefix/patched-bytes.ts';
import {
  pythonShebang,
  replaceShebang,
  shellShebang,
  textPatches,
} from '../../../src/conda/installing/prefix/text-patches.ts';

const many = 1000;
const utf8 = (text: string) => Buffer.from(text);
const le16 = (text: string) => Buffer.from(text, 'utf16le');
const be16 = (text: string) => Buffer.from(text, 'utf16le').swap16();
const le32 = (text: string) => {
  const points = [...text].map(character => character.codePointAt(0) ?? 0);
  return Buffer.from(Uint32Array.from(points).buffer);
};
const be32 = (text: string) => le32(text).swap32();
const encodings = [utf8, le16, be16, le32, be32];

/** A file, which checks that reads are inside and not too large. */
function sourceOf(bytes: Buffer): ByteSource {
  return {
    size: bytes.length,
    read(offset, length) {
      assert.ok(offset >= 0 && length >= 0 && offset + length <= bytes.length, 'inside the file');
      return bytes.subarray(offset, offset + length);
    },
  };
}

function patched(bytes: Buffer, patches: readonly Patch[]): Buffer {
  const whole = Buffer.concat([...patchedChunks(sourceOf(bytes), patches)].map(Buffer.from));
  assert.equal(patchedSize(bytes.length, patches), whole.length);
  return whole;
}

const text = (bytes: Buffer | string, placeholder: string, prefix: string, limit = many) => {
  const file = Buffer.from(bytes);
  return patched(file, textPatches(sourceOf(file), placeholder, prefix, limit));
};
const binary = (bytes: Buffer | string, placeholder: string, prefix: string, limit = many) => {
  const file = Buffer.from(bytes);
  return patched(file, binaryPatches(sourceOf(file), placeholder, prefix, limit));
};

test('a text has the prefix in place of each placeholder, in all encodings', () => {
  for (const encode of encodings) {
    const file = encode('a=/place/lib:/place\nb=/place');
    assert.deepEqual(
      text(file, '/place', '/opt/env'),
      encode('a=/opt/env/lib:/opt/env\nb=/opt/env'),
    );
    assert.deepEqual(text(file, '/place', '/'), encode('a=//lib:/\nb=/'), 'a shorter one');
  }
  assert.equal(text('nothing', '/place', '/opt').toString(), 'nothing');
  for (const any of ['any', '#!/bin/sh']) {
    assert.equal(text(any, '', '/opt').toString(), any, 'no placeholder');
  }
  assert.equal(text('', '/place', '/opt').toString(), '');
  assert.equal(text('$& /place', '/place', "$&$'").toString(), "$& $&$'", 'the prefix is literal');
  assert.equal(text('ppp', 'pp', 'x').toString(), 'xp', 'without overlaps');
});

test('of two encodings that overlap, the one at a whole code unit counts, then the earlier one', () => {
  // A prefix whose bytes differ in both orders.
  const prefix = '/\u4e2d';
  const zeros = (count: number) => Buffer.alloc(count);
  for (const [start, encode, end] of [
    [zeros(0), be16, zeros(1)],
    [utf8('x\0'), le16, zeros(0)],
    [zeros(0), be32, zeros(3)],
    [utf8('x\0\0\0'), le32, zeros(0)],
    // Neither is at a whole code unit.
    [utf8('xx'), be32, zeros(3)],
    [utf8('xxx'), be32, zeros(3)],
  ] as const) {
    const file = Buffer.concat([start, encode('/p'), end]);
    assert.deepEqual(text(file, '/p', prefix), Buffer.concat([start, encode(prefix), end]));
    const string = Buffer.concat([start, encode('/p\0'), end]);
    assert.deepEqual(
      binary(string, '/p', prefix),
      Buffer.concat([start, encode(`${prefix}\0`), end]),
    );
  }
});

test('UTF-8 counts before all other encodings, wherever it is', () => {
  assert.deepEqual(text('p\0', 'p', 'q'), utf8('q\0'));
  assert.deepEqual(text('\0p', 'p', 'q'), utf8('\0q'));
  assert.deepEqual(text('p\0-\0p', 'p', 'qr'), utf8('qr\0-\0qr'));
  assert.deepEqual(text('\0p\0p', 'p', 'qr'), utf8('\0qr\0qr'));
});

test('a placeholder is found wherever it is, also across what is read at once', () => {
  for (const encode of encodings) {
    const place = encode('/place');
    for (const shift of [-place.length, 1 - place.length, -1, 0, 1]) {
      const before = Buffer.alloc(chunkBytes + shift - ((chunkBytes + shift) % 4), 'x');
      const file = Buffer.concat([before, place, encode('/lib'), before, place]);
      const expected = Buffer.concat([before, encode('/opt/lib'), before, encode('/opt')]);
      assert.ok(text(file, '/place', '/opt').equals(expected), `${encode} ${shift}`);
    }
  }
  for (const at of [chunkBytes - 6, chunkBytes - 5, chunkBytes - 1, chunkBytes]) {
    const file = Buffer.concat([Buffer.alloc(at, 'x'), utf8('/place/place')]);
    assert.deepEqual(offsetsOf(sourceOf(file), encodedPrefixes('/place', '/opt'), many)[0], [
      at,
      at + 6,
    ]);
  }
  // The longest form begins with the last byte that is searched, and ends with the last one that is read.
  const last = Buffer.concat([Buffer.alloc(chunkBytes - 1, 'x'), le32('/place')]);
  const [, , , offsets] = offsetsOf(sourceOf(last), encodedPrefixes('/place', '/opt'), many);
  assert.deepEqual(offsets, [chunkBytes - 1]);
});

test('zeros before a placeholder are no part of it, however many there are', () => {
  for (const zeros of [1, 2, 3, 4, 5, 1000]) {
    const file = Buffer.concat([Buffer.alloc(zeros), be32('/place'), Buffer.alloc(4)]);
    const [, , , , offsets] = offsetsOf(sourceOf(file), encodedPrefixes('/place', '/opt'), many);
    assert.deepEqual(offsets, [zeros]);
  }
  // The end of the needle without its beginning.
  const cut = Buffer.concat([utf8('x'), be16('/place').subarray(1), be16('-/place')]);
  const [, , offsets] = offsetsOf(sourceOf(cut), encodedPrefixes('/place', '/opt'), many);
  assert.deepEqual(offsets, [14]);
  const half = Buffer.concat([utf8('x'), be32('/place').subarray(1)]);
  const [, , , , none] = offsetsOf(sourceOf(half), encodedPrefixes('/place', '/opt'), many);
  assert.deepEqual(none, []);
});

test('a file with more placeholders than the limit is refused', () => {
  for (const patch of [text, binary]) {
    assert.equal(patch('/p/p/p', '/p', '/q', 3).toString(), '/q/q/q');
    assert.throws(() => patch('/p/p/p', '/p', '/q', 2), /more than 2 occurrences of its prefix/);
  }
});

test('a script starts its interpreter below the prefix', () => {
  for (const [script, expected] of [
    ['#!/place/bin/perl -w\n/place', '#!/opt/bin/perl -w\n/opt'],
    ['#! /place/bin/perl', '#! /opt/bin/perl'],
    ['#!/bin/sh\n/place', '#!/bin/sh\n/opt'],
    ['#!/place/place\n', '#!/opt/opt\n'],
    ['#!', '#!'],
    ['#', '#'],
    ['/place\n#!/place', '/opt\n#!/opt'],
  ] as const) {
    assert.equal(text(script, '/place', '/opt').toString(), expected);
  }
});

test('only the first line of a script is a shebang', () => {
  const long = `/${'l'.repeat(130)}`;
  const script = Buffer.from('#!/place/bin/python\n\xff /place\n', 'latin1');
  const expected = `${shellShebang(`${long}/bin/python`)}\n\xff ${long}\n`;
  assert.deepEqual(text(script, '/place', long), Buffer.from(expected, 'latin1'));
});

test('a shebang has at most 127 bytes; a longer one finds its program by env', () => {
  for (const [length, isLong] of [
    [127, false],
    [128, true],
  ] as const) {
    const prefix = `/${'é'.repeat((length - '#!/bin/x'.length - 1 - 1) / 2)}`.padEnd(
      length - '#!/bin/x'.length - Math.floor((length - 10) / 2),
      'e',
    );
    const line = `#!${prefix}/bin/x`;
    assert.equal(Buffer.byteLength(line), length);
    const made = text('#!/place/bin/x\nrest /place', '/place', prefix).toString();
    assert.equal(made, `${isLong ? '#!/usr/bin/env x' : line}\nrest ${prefix}`);
  }
  const long = `/${'l'.repeat(130)}`;
  for (const [line, expected] of [
    ['#!/place/bin/perl -w x', '#!/usr/bin/env perl -w x'],
    ['#!  /place/bin/perl', '#!/usr/bin/env perl'],
    ['#!/place/bin/a\\ b c', '#!/usr/bin/env a\\ b c'],
    ['#!/place/bin/perl\t-w', '#!/usr/bin/env perl\t-w'],
    [
      '#!/place/bin/python3.11 -E',
      `#!/bin/sh\n'''exec' "${long}/bin/python3.11" -E "$0" "$@" #'''`,
    ],
    ['#!/place/bin/python', `#!/bin/sh\n'''exec' "${long}/bin/python" "$0" "$@" #'''`],
    ['#!/place/bin/python3', `#!/bin/sh\n'''exec' "${long}/bin/python3" "$0" "$@" #'''`],
    ['#!/place/bin/python3.11.2', '#!/usr/bin/env python3.11.2'],
    ['#!/place/bin/ipython3', '#!/usr/bin/env ipython3'],
    ['#!/place/bin/python3-config', '#!/usr/bin/env python3-config'],
    ['#!place/place', `#!place${long}`],
    ['# /place', `# ${long}`],
    ['#!x#!/place/bin/perl', `#!x#!${long}/bin/perl`],
  ] as const) {
    assert.equal(replaceShebang(line, '/place', long), expected, line);
  }
});

test('a prefix with a blank is not in a shebang', () => {
  for (const [line, expected] of [
    ['#!/place/bin/perl /place', '#!/usr/bin/env perl /a b'],
    ['#!/place/bin/python', `#!/bin/sh\n'''exec' "/a b/bin/python" "$0" "$@" #'''`],
    ['#!/bin/sh', '#!/bin/sh'],
  ] as const) {
    assert.equal(replaceShebang(line, '/place', '/a b'), expected);
  }
});

test('a Python script gets a shebang that Linux runs', () => {
  const most = `/${'p'.repeat(124)}`;
  assert.equal(pythonShebang(most), `#!${most}`);
  assert.equal(pythonShebang(`${most}p`), shellShebang(`${most}p`));
  assert.equal(pythonShebang('/a b/python'), shellShebang('/a b/python'));
  assert.equal(shellShebang('/x', ' -E'), `#!/bin/sh\n'''exec' "/x" -E "$0" "$@" #'''`);
  const long = `/${'é'.repeat(62)}`;
  assert.equal(pythonShebang(long), `#!${long}`);
  assert.equal(pythonShebang(`${long}p`), shellShebang(`${long}p`), 'bytes count');
});

test('the first line of a script has at most a mebibyte', () => {
  const most = 1024 * 1024;
  const line = Buffer.alloc(most, 'x');
  line.write('#!x /place/');
  const script = (more: string) => Buffer.concat([line, utf8(more)]);
  for (const end of ['\n/place', '']) {
    const made = text(script(end), '/place', '/opt');
    assert.equal(made.subarray(0, 9).toString(), '#!x /opt/');
    assert.ok(made.toString().endsWith(end === '' ? 'x' : '\n/opt'));
  }
  for (const end of ['x\n', 'x']) {
    assert.throws(() => text(script(end), '/place', '/opt'), /first line exceeds 1 MiB/);
  }
});

test('the strings of a program keep their end: zeros fill the gap behind it', () => {
  for (const encode of encodings) {
    for (const [file, expected] of [
      ['/place/lib\0x', '/op/lib\0\0\0\0x'],
      ['-/place:/place/a\0/place\0', '-/op:/op/a\0\0\0\0\0\0\0/op\0\0\0\0'],
      ['/place\0\0\0after', '/op\0\0\0\0\0\0after'],
      ['/place/x', '/op/x\0\0\0'],
      ['none\0', 'none\0'],
    ] as const) {
      const made = binary(encode(file), '/place', '/op');
      assert.deepEqual(made, encode(expected), `${encode} ${JSON.stringify(file)}`);
      assert.equal(made.length, encode(file).length);
    }
    const same = binary(encode('/place/lib\0'), '/place', '/other');
    assert.deepEqual(same, encode('/other/lib\0'));
  }
});

test('a prefix that is longer than the placeholder does not fit into a program', () => {
  assert.throws(() => binary('/p\0', '/p', '/opt'), /shorter than the path.*\(utf-8\)/);
  assert.throws(() => binary(le16('/p\0'), '/p', '/opt'), /\(utf-16-le\)/);
  assert.equal(binary('nothing', '/p', '/opt').toString(), 'nothing');
});

test('of strings of a program that overlap, the one at a whole code unit counts', () => {
  const zero = Buffer.alloc(1);
  const big = Buffer.concat([be16('/place/x\0'), zero]);
  assert.deepEqual(binary(big, '/place', '/op'), Buffer.concat([be16('/op/x\0\0\0\0'), zero]));
  const odd = Buffer.concat([utf8('x'), zero, le16('/place/x\0')]);
  const made = Buffer.concat([utf8('x'), zero, le16('/op/x\0\0\0\0')]);
  assert.deepEqual(binary(odd, '/place', '/op'), made);
  const wide = Buffer.concat([utf8('xxxx'), be32('/place\0'), be32('/place\0')]);
  const both = Buffer.concat([utf8('xxxx'), be32('/op\0\0\0\0'), be32('/op\0\0\0\0')]);
  assert.deepEqual(binary(wide, '/place', '/op'), both);
});

test('a string that ends counts before one that does not, but after one at a whole code unit', () => {
  const prefix = '/\u4e2d';
  const zeros = (count: number) => Buffer.alloc(count);
  const made = (...parts: Buffer[]) => binary(Buffer.concat(parts), '/p', prefix);
  // Neither is at a whole code unit, and only the one in little-endian order ends.
  assert.deepEqual(
    made(utf8('xx'), be32('/p'), zeros(3), utf8('yzzz'), zeros(4)),
    Buffer.concat([utf8('xx'), zeros(3), le32(prefix), utf8('yzzz'), zeros(4)]),
  );
  // The one in little-endian order is at a whole code unit, the other one ends.
  assert.deepEqual(
    made(utf8('x'), be32('/p'), zeros(4), utf8('zzz')),
    Buffer.concat([utf8('x'), zeros(3), le32(prefix), zeros(1), utf8('zzz')]),
  );
  assert.equal(binary('\0pab\0\0', 'p', '').toString(), '\0ab\0\0\0', 'UTF-8 counts first');
});

test('strings that only touch are both replaced', () => {
  const file = Buffer.concat([utf8('/p'), be16('/p\0')]);
  assert.deepEqual(binary(file, '/p', '/q'), Buffer.concat([utf8('/q'), be16('/q\0')]));
  const wide = Buffer.concat([le16('/place\0'), utf8('/place\0')]);
  const expected = Buffer.concat([le16('/plac\0\0'), utf8('/plac\0\0')]);
  assert.deepEqual(binary(wide, '/place', '/plac'), expected);
  // In the other order of bytes, a character beyond Latin-1 is another one.
  const touching = Buffer.concat([utf8('/ppp'), be16('/ppp\0')]);
  const replaced = Buffer.concat([utf8('/\u4e2d'), be16('/\u4e2d\0\0\0')]);
  assert.deepEqual(binary(touching, '/ppp', '/\u4e2d'), replaced);
});

test('strings in several encodings, one after another, are all replaced', () => {
  const parts = [
    utf8('/place/a\0\0\0\0'),
    le16('/place/b\0'),
    be16('/place/c\0'),
    utf8('/place\0'),
  ];
  const expected = [
    ...[utf8('/op/a\0\0\0\0\0\0\0'), le16('/op/b\0\0\0\0'), be16('/op/c\0\0\0\0')],
    utf8('/op\0\0\0\0'),
  ];
  assert.deepEqual(binary(Buffer.concat(parts), '/place', '/op'), Buffer.concat(expected));
});

test('the zero of a string may be far behind, and across what is read at once', () => {
  for (const encode of encodings) {
    const atOnce = chunkBytes / encode('x').length;
    for (const length of [0, 1, 2, 3, atOnce - 2, atOnce - 1]) {
      const rest = encode('y'.repeat(length < 4 ? chunkBytes : 0));
      const more = encode('z'.repeat(length));
      const file = Buffer.concat([encode('/place'), rest, more, encode('\0a')]);
      const expected = Buffer.concat([encode('/op'), rest, more, encode('\0\0\0\0a')]);
      assert.ok(binary(file, '/place', '/op').equals(expected), `${encode} ${length}`);
    }
  }
});

test('a file of up to a mebibyte is read once', () => {
  for (const [size, expected] of [
    [1024 * 1024, 1],
    [1024 * 1024 + 1, 3],
  ] as const) {
    let reads = 0;
    const bytes = Buffer.alloc(size, 'ab');
    const source = readOnce({
      size,
      read(offset, length) {
        reads += 1;
        return bytes.subarray(offset, offset + length);
      },
    });
    for (const [at, length] of [
      [0, 2],
      [1, 3],
      [size - 1, 1],
    ] as const) {
      assert.ok(source.read(at, length).equals(bytes.subarray(at, at + length)));
    }
    assert.equal(source.size, size);
    assert.equal(reads, expected);
  }
});

test('patched bytes come in chunks, none of them empty', () => {
  const bytes = Buffer.alloc(2 * chunkBytes + 5, 'x');
  const patches = [
    { start: 0, end: 1, bytes: utf8('first') },
    { start: 3, end: 5, bytes: Buffer.alloc(0) },
    { start: chunkBytes, end: chunkBytes, bytes: utf8('put in') },
  ];
  const lengths = [...patchedChunks(sourceOf(bytes), patches)].map(({ length }) => length);
  assert.deepEqual(lengths, [5, 2, chunkBytes - 5, 6, chunkBytes, 5]);
  assert.equal(patchedSize(bytes.length, patches), bytes.length + 4 - 2 + 6);
});
