/** Packs that no git has written: none ends the thread that reads it, and none takes more than its bounds. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { deflateSync } from 'node:zlib';
import { listedIn } from '../../../src/pypi/repositories/read-modules.ts';
import { PackProblem, readPack } from '../../../src/pypi/repositories/read-pack.ts';

const bounds = { maxObjects: 100, maxObjectBytes: 10_000 };
const commit = 1;
const blob = 3;
const ofsDelta = 6;

function head(type: number, size: number): Buffer {
  const bytes = [(type << 4) | (size & 15)];
  for (let rest = size >> 4; rest > 0; rest >>= 7) {
    bytes[bytes.length - 1] = (bytes.at(-1) ?? 0) | 128;
    bytes.push(rest & 127);
  }
  return Buffer.from(bytes);
}

function packOf(objects: readonly Buffer[], count = objects.length): Buffer {
  const start = Buffer.alloc(12);
  start.write('PACK');
  start.writeUInt32BE(2, 4);
  start.writeUInt32BE(count, 8);
  return Buffer.concat([start, ...objects, Buffer.alloc(20)]);
}

const plain = (type: number, text: string | Buffer) =>
  Buffer.concat([head(type, text.length), deflateSync(text)]);
const delta = (distance: number, bytes: readonly number[]) =>
  Buffer.concat([
    head(ofsDelta, bytes.length),
    Buffer.from([distance]),
    deflateSync(Buffer.from(bytes)),
  ]);

function textsOf(pack: Buffer): string[] {
  const found: string[] = [];
  readPack(
    pack,
    bounds,
    kind => kind === 'commit',
    (_, { content }) => found.push(content.toString()),
  );
  return found;
}

const one = plain(commit, 'hello world');
const half = [11, 8, 0x90, 5, 3, 33, 33, 33];

test('an object that is written as a difference has its whole text, and other kinds are passed over', () => {
  const other = plain(blob, 'not read'.repeat(100));
  const distance = one.length + other.length;
  assert.deepEqual(textsOf(packOf([one, other, delta(distance, half)])), [
    'hello world',
    'hello!!!',
  ]);
});

test('a pack that lies is refused', () => {
  const far = [11, 8, 0x91, 9, 5, 3, 33, 33, 33];
  const refusals: readonly (readonly [Buffer, RegExp])[] = [
    [Buffer.from('<html>'), /not a pack/],
    [packOf([one], 1000), /has 1000 objects, more than 100/],
    [packOf([one], 2), /ends too early/],
    [packOf([one, one], 1), /more than its objects/],
    [packOf([delta(5, half)]), /no base/],
    [packOf([one, delta(one.length, far)]), /leads out of its base/],
    [packOf([one, delta(one.length, [11, 0xff, 0xff, 0x7f])]), /too large/],
    [packOf([one, delta(one.length, [12, 8])]), /another base/],
    [packOf([Buffer.concat([head(commit, 5), deflateSync('hello world')])]), /damaged|size/],
    [packOf([Buffer.concat([head(blob, 2 ** 30), deflateSync('')])]), /too large/],
    [packOf([Buffer.concat([head(blob, 9), deflateSync(Buffer.alloc(1e6))])]), /damaged/],
  ];
  for (const [pack, message] of refusals) {
    assert.throws(
      () => textsOf(pack),
      error => error instanceof PackProblem && message.test(error.message),
      String(message),
    );
  }
});

test('no change of a byte makes a reader fail in another way', () => {
  const pack = packOf([one, plain(blob, 'x'.repeat(300)), delta(one.length + 21, half)]);
  for (let at = 0; at < pack.length; at += 1) {
    for (const value of [0, 1, 0x7f, 0x80, 0xff]) {
      const changed = Buffer.from(pack);
      changed[at] = value;
      try {
        textsOf(changed);
      } catch (error) {
        assert.ok(error instanceof PackProblem, `${at} ${value} ${error}`);
      }
    }
  }
});

test('a list of submodules is read as git reads it', () => {
  const text = `# comment
[submodule "a"]
\tpath = x/a
\turl = "https://h.test/a"
[submodule "b"]
path=b
URL = ../b.git
\tbranch = main
[core]
\tpath = c
\turl = https://h.test/c
[submodule "d"]
\tpath = d
`;
  assert.deepEqual(listedIn(text), [
    { path: 'x/a', url: 'https://h.test/a' },
    { path: 'b', url: '../b.git' },
  ]);
});
