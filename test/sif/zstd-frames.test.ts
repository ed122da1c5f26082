import assert from 'node:assert/strict';
import { pipeline, Readable } from 'node:stream';
import { test } from 'node:test';
import { constants, createZstdDecompress, zstdCompressSync } from 'node:zlib';
import fc from 'fast-check';
import { ZstdFrames } from '../../src/archives/zstd-frames.ts';
import { assertBytes } from '../world/assert-bytes.ts';

const contents = fc.oneof(
  fc.uint8Array({ maxLength: 2000 }).map(bytes => Buffer.from(bytes)),
  fc.nat(400_000).map(size => Buffer.alloc(size, 'all the same')),
);
const frames = fc
  .record({ content: contents, checksum: fc.boolean(), sized: fc.boolean(), level: fc.nat(9) })
  .map(({ content, checksum, sized, level }) => {
    const params = {
      [constants.ZSTD_c_checksumFlag]: checksum ? 1 : 0,
      [constants.ZSTD_c_contentSizeFlag]: sized ? 1 : 0,
      [constants.ZSTD_c_compressionLevel]: level,
    };
    return { content, bytes: zstdCompressSync(content, { params }) };
  });
const skippable = fc.record({ kind: fc.nat(15), size: fc.nat(300) }).map(({ kind, size }) => {
  const bytes = Buffer.alloc(8 + size, 'skipped');
  bytes.writeUInt32LE(0x184d2a50 + kind, 0);
  bytes.writeUInt32LE(size, 4);
  return { content: Buffer.alloc(0), bytes };
});
const files = fc.tuple(frames, fc.array(fc.oneof(frames, skippable), { maxLength: 6 }));
const pieceSizes = fc.oneof(
  fc.integer({ min: 1, max: 20 }),
  fc.integer({ min: 100, max: 100_000 }),
);

function* pieces(bytes: Buffer, size: number): Generator<Buffer> {
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
}

async function unpack(bytes: Buffer, size: number): Promise<Buffer> {
  const parts = Readable.from(pieces(bytes, size), { objectMode: false });
  const unpacked = pipeline(parts, new ZstdFrames(), createZstdDecompress(), () => {});
  return Buffer.concat(await unpacked.toArray());
}

test('every frame of a file is unpacked, for any size of the pieces', async () => {
  await fc.assert(
    fc.asyncProperty(files, pieceSizes, async ([first, others], size) => {
      const all = [first, ...others];
      const bytes = Buffer.concat(all.map(frame => frame.bytes));
      const expected = Buffer.concat(all.map(({ content }) => content));
      assertBytes(await unpack(bytes, size), expected);
    }),
    { numRuns: 60 },
  );
});

test('a truncated file, and one followed by other data, are refused', async () => {
  const bytes = Buffer.concat([zstdCompressSync('first'), zstdCompressSync('second')]);
  for (const size of [1, 7, 1000]) {
    await assert.rejects(unpack(bytes.subarray(0, -1), size), { code: 'Z_BUF_ERROR' });
    await assert.rejects(unpack(Buffer.concat([bytes, Buffer.from('and more')]), size), {
      code: 'ZSTD_error_prefix_unknown',
    });
  }
});
