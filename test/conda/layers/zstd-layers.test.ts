/** Layers in zstd: the same bytes however they come, for every decompressor. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { test } from 'node:test';
import { createZstdDecompress } from 'node:zlib';
import { ZstdFrames } from '../../../src/archives/zstd-frames.ts';
import { ZstdWriter } from '../../../src/conda/layers/forms/zstd-writer.ts';
import { memberBytes } from '../../../src/conda/layers/gzip/gzip-members.ts';

function compressed(bytes: Buffer, pieceBytes: number, level = 3): Buffer {
  const pieces: Buffer[] = [];
  const writer = new ZstdWriter(piece => {
    assert.ok(piece.length <= memberBytes);
    pieces.push(Buffer.from(piece));
  }, level);
  for (let at = 0; at < bytes.length; at += pieceBytes) {
    writer.write(bytes.subarray(at, at + pieceBytes));
  }
  writer.end();
  return Buffer.concat(pieces);
}

async function unpacked(bytes: Buffer): Promise<Buffer> {
  const parts: Buffer[] = [];
  await pipeline(Readable.from([bytes]), new ZstdFrames(), createZstdDecompress(), async chunks => {
    for await (const chunk of chunks as AsyncIterable<Buffer>) parts.push(chunk);
  });
  return Buffer.concat(parts);
}

test('the pieces of the content have no effect, and all frames are one content', async () => {
  const contents = [
    Buffer.alloc(0),
    Buffer.from('short'),
    Buffer.alloc(9 * 2 ** 20 + 1, 'text of a file\n'),
    randomBytes(5 * 2 ** 20),
  ];
  for (const content of contents) {
    const whole = compressed(content, 2 ** 30);
    assert.deepEqual(await unpacked(whole), content);
    for (const pieceBytes of [333_333, 2 ** 22]) {
      assert.deepEqual(compressed(content, pieceBytes), whole);
    }
  }
});

test('a higher level takes fewer bytes', () => {
  const content = Buffer.from(Array.from({ length: 900_000 }, (_, n) => `${n % 9973} `).join(''));
  const usual = compressed(content, 2 ** 20);
  assert.ok(compressed(content, 2 ** 20, 19).length < usual.length);
});
