/** Layers are compressed to the same bytes everywhere, and every reader takes their gzip members for one file. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { test } from 'node:test';
import { gunzipSync } from 'node:zlib';
import fc from 'fast-check';
import { tarEnd } from '../../../src/archives/tar-writer.ts';
import { createGzipWriter } from '../../../src/conda/layers/gzip/gzip-members.ts';
import { layerEnd } from '../../../src/conda/layers/making/layer-output.ts';

/** Bytes between noise and zeros, the same on every machine. */
function sample(bytes: number, seed = 1): Buffer {
  const result = Buffer.alloc(bytes);
  let state = seed;
  for (let at = 0; at < bytes; at += 1) {
    state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0;
    result[at] = (state >>> 16) & ((at >> 12) % 8 === 0 ? 0xff : 0x0f);
  }
  return result;
}

function compress(bytes: Uint8Array, pieceBytes = bytes.length || 1): Buffer {
  const members: Buffer[] = [];
  using gzip = createGzipWriter(member => members.push(Buffer.from(member)));
  for (let from = 0; from < bytes.length; from += pieceBytes) {
    gzip.write(bytes.subarray(from, from + pieceBytes));
  }
  gzip.end();
  return Buffer.concat(members);
}

const sha256 = (bytes: Uint8Array) => createHash('sha256').update(bytes).digest('hex');

test('the compressed bytes are those of every other machine and of every later version', () => {
  const text = Buffer.from('a package is a set of files\n'.repeat(50_000));
  assert.deepEqual(
    [sample(3_000_000), text, tarEnd].map(bytes => sha256(compress(bytes))),
    [
      'ef215a4bb66cbcec6e67e7187bb4490a953c43e375414a432673fadf5a481d6b',
      'bc8a337463227a65fff16fb10acbfb1e35c00e61382499de1c22e179050fd0f0',
      '62539018952ddec37a4fcf8d77171cfbcd5b21fc3520f32028cd9cfdae546a31',
    ],
  );
  assert.equal(
    layerEnd().toString('hex'),
    '1f8b08000000000000ff631805a360148c5800002eafb5ef00040000',
  );
});

test('any bytes in pieces of any size come back, and their members do not depend on the pieces', () => {
  const bytes = fc.tuple(fc.nat(2_500_000), fc.nat()).map(([size, seed]) => sample(size, seed));
  fc.assert(
    fc.property(bytes, fc.integer({ min: 1000, max: 3_000_000 }), (content, pieceBytes) => {
      const whole = compress(content);
      assert.ok(compress(content, pieceBytes).equals(whole));
      if (content.length > 0) assert.ok(gunzipSync(whole).equals(content));
    }),
    { numRuns: 30 },
  );
});

test('a writer begins again after an end, and other programs read its members as one file', () => {
  const members: Buffer[] = [];
  using gzip = createGzipWriter(member => members.push(Buffer.from(member)));
  const [one, two] = [sample(1_500_000, 2), sample(10, 3)];
  for (const bytes of [one, two]) {
    gzip.write(bytes);
    gzip.end();
  }
  gzip.end();
  assert.equal(members.length, 3);
  const file = Buffer.concat([...members, layerEnd()]);
  const content = Buffer.concat([one, two, tarEnd]);
  assert.ok(gunzipSync(file).equals(content));
  assert.ok(execFileSync('gzip', ['-dc'], { input: file, maxBuffer: 2 ** 24 }).equals(content));
  execFileSync('gzip', ['-t'], { input: file });
});
