/** Zstandard is read as zlib writes it, in the same memory for one stream after another. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { constants, zstdCompressSync } from 'node:zlib';
import fc from 'fast-check';
import { ArchiveProblem } from '../../../src/conda/archives/archive-problem.ts';
import { frameWindow } from '../../../src/conda/archives/zstd/frame-window.ts';
import { ZstdDecoder } from '../../../src/conda/archives/zstd/zstd-decoder.ts';

/** Bytes with repetitions near and far, the same for the same seed. */
function sample(size: number, seed: number): Buffer {
  const result = Buffer.alloc(size);
  let state = seed;
  for (let at = 0; at < size; at += 1) {
    state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0;
    result[at] = at > 70_000 && (at >> 12) % 3 > 0 ? (result[at - 70_000] ?? 0) : state >>> 27;
  }
  return result;
}

function compress(content: Buffer, level: number): Buffer {
  return zstdCompressSync(content, { params: { [constants.ZSTD_c_compressionLevel]: level } });
}

function decompress(bytes: Buffer, pieceBytes = 2 ** 20): Buffer {
  const parts: Buffer[] = [];
  using decoder = new ZstdDecoder(27);
  for (let at = 0; at < bytes.length; ) {
    const { input } = decoder;
    const copied = bytes.copy(input, 0, at, at + Math.min(pieceBytes, input.length));
    at += copied;
    for (const part of decoder.decompress(copied)) parts.push(Buffer.from(part));
  }
  decoder.end();
  return Buffer.concat(parts);
}

test('any bytes come back at every level, in pieces of any size, and in any number of frames', () => {
  const contents = fc.array(fc.tuple(fc.nat(1_500_000), fc.nat(), fc.constantFrom(1, 3, 9, 19)), {
    minLength: 1,
    maxLength: 3,
  });
  fc.assert(
    fc.property(contents, fc.integer({ min: 100, max: 300_000 }), (frames, pieceBytes) => {
      const samples = frames.map(([size, seed]) => sample(size, seed));
      const packed = frames.map(([, , level], at) => compress(samples[at] as Buffer, level));
      const whole = Buffer.concat(samples);
      assert.ok(decompress(Buffer.concat(packed), pieceBytes).equals(whole));
    }),
    { numRuns: 15 },
  );
});

test('cut and damaged bytes are refused, and the next stream is read', () => {
  const content = sample(400_000, 1);
  const packed = compress(content, 3);
  for (let at = 0; at < packed.length; at += Math.ceil(packed.length / 40)) {
    assert.throws(() => decompress(packed.subarray(0, at)), ArchiveProblem);
    const damaged = Buffer.from(packed);
    damaged[at] = (damaged[at] ?? 0) ^ 0xff;
    try {
      decompress(damaged);
    } catch (error) {
      assert.ok(error instanceof ArchiveProblem);
    }
  }
  assert.ok(decompress(packed).equals(content));
});

test('the window of a frame is known from its beginning', () => {
  for (const size of [20, 1000, 100_000, 2_000_000]) {
    assert.equal(frameWindow(zstdCompressSync(Buffer.alloc(size))), size);
  }
  // Source: RFC 8878, 3.1.1.1.2.
  for (const log of [10, 20, 23, 27]) {
    const start = [0x28, 0xb5, 0x2f, 0xfd, 0, (log - 10) << 3];
    assert.equal(frameWindow(Buffer.from(start)), 2 ** log);
    assert.equal(frameWindow(Buffer.from(start.with(5, (start[5] ?? 0) + 4))), 1.5 * 2 ** log);
  }
  assert.equal(frameWindow(Buffer.alloc(100, 'no frame')), 0);
  assert.equal(frameWindow(Buffer.alloc(3)), 0);
  // As pzstd writes it: a skippable frame says how long the next one is.
  const skippable = Buffer.from([0x50, 0x2a, 0x4d, 0x18, 4, 0, 0, 0, 9, 9, 9, 9]);
  const large = Buffer.from([0x28, 0xb5, 0x2f, 0xfd, 0, 17 << 3]);
  assert.equal(frameWindow(Buffer.concat([skippable, skippable, large])), 2 ** 27);
  assert.equal(frameWindow(skippable), 0);
  assert.equal(frameWindow(Buffer.from([0x50, 0x2a, 0x4d, 0x18, 255, 255, 255, 255])), 0);
});
