/** Zstandard is read as zlib writes it, in the same memory for one stream after another. */
import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { tmpdir } from 'node:os';
import { test } from 'node:test';
import { constants, zstdCompressSync } from 'node:zlib';
import fc from 'fast-check';
import { ArchiveProblem } from '../../../src/conda/archives/archive-checks.ts';
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
  using decoder = new ZstdDecoder(27, tmpdir());
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

test('windows of every size up to 128 MiB are read in 16 MiB of memory, with copies from near and far', () => {
  // Each piece is copied from up to 120 MiB before.
  const pieces = Array.from({ length: 40 }, () => randomBytes(1_000_003));
  const far = (at: number) => pieces[(at * 17) % pieces.length] as Buffer;
  const content = Buffer.concat([
    ...pieces,
    ...Array.from({ length: 120 }, (_, at) => far(at).subarray(at * 7, 900_000 - at * 1009)),
    ...pieces.map((piece, at) =>
      Buffer.concat([piece.subarray(0, at * 5000), Buffer.alloc(at, at)]),
    ),
  ]);
  for (const windowLog of [20, 23, 24, 27]) {
    const packed = zstdCompressSync(content, {
      params: {
        [constants.ZSTD_c_compressionLevel]: 1,
        [constants.ZSTD_c_windowLog]: windowLog,
        [constants.ZSTD_c_enableLongDistanceMatching]: 1,
        [constants.ZSTD_c_contentSizeFlag]: 0,
        [constants.ZSTD_c_checksumFlag]: 1,
      },
    });
    if (windowLog === 27) assert.ok(packed.length < 45_000_000, `${packed.length}`);
    const sum = createHash('sha256');
    using decoder = new ZstdDecoder(27, tmpdir());
    for (let at = 0; at < packed.length; ) {
      const { input } = decoder;
      const copied = packed.copy(input, 0, at, at + 100_000);
      at += copied;
      for (const part of decoder.decompress(copied)) {
        assert.ok(part.buffer.byteLength < 16 * 2 ** 20, `${part.buffer.byteLength}`);
        sum.update(part);
      }
    }
    decoder.end();
    assert.equal(sum.digest('hex'), createHash('sha256').update(content).digest('hex'));
  }
});

test('damaged bytes with a large window are refused', () => {
  const content = randomBytes(9_000_000);
  const packed = zstdCompressSync(Buffer.concat([content, sample(100_000, 2), content]), {
    params: {
      [constants.ZSTD_c_compressionLevel]: 1,
      [constants.ZSTD_c_windowLog]: 24,
      [constants.ZSTD_c_enableLongDistanceMatching]: 1,
      [constants.ZSTD_c_contentSizeFlag]: 0,
      [constants.ZSTD_c_checksumFlag]: 1,
    },
  });
  assert.ok(packed.length < 10_000_000);
  // The copies are behind the random bytes.
  for (let at = 9_010_000; at < packed.length; at += Math.ceil((packed.length - 9_010_000) / 6)) {
    const damaged = Buffer.from(packed);
    damaged[at] = (damaged[at] ?? 0) ^ 0x55;
    assert.throws(() => decompress(damaged), ArchiveProblem, `${at}`);
  }
});

test('a window of more than 128 MiB is refused', () => {
  const frame = (...bytes: number[]) => Buffer.from([0x28, 0xb5, 0x2f, 0xfd, ...bytes]);
  assert.throws(() => decompress(frame(0, 18 << 3, 1, 0, 0)), /larger zstd window/);
  assert.equal(decompress(frame(0, 17 << 3, 1, 0, 0)).length, 0);
});

test('skippable frames of any size are no content', () => {
  const content = sample(200_000, 4);
  const skippable = (size: number) => {
    const frame = Buffer.alloc(8 + size, 9);
    frame.writeUInt32LE(0x184d2a53);
    frame.writeUInt32LE(size, 4);
    return frame;
  };
  const packed = [skippable(0), compress(content, 3), skippable(700_000), compress(content, 1)];
  const whole = Buffer.concat([...packed, skippable(3)]);
  for (const piece of [1000, 2 ** 20]) {
    assert.ok(decompress(whole, piece).equals(Buffer.concat([content, content])));
  }
  assert.throws(() => decompress(whole.subarray(0, -1)), ArchiveProblem);
});
