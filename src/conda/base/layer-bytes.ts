import { pipeline, Readable, type Transform } from 'node:stream';
import { createGunzip, createZstdDecompress } from 'node:zlib';
import { ZstdFrames } from '../../images/sif/layers/zstd-frames.ts';
import { type ByteSource, copiesOf } from '../../storage/content/byte-source.ts';

const chunkSize = 64 * 1024;

/** Yields the bytes of a layer's tar file as they arrive. Detects the compression from the first bytes. */
export async function* layerBytes(source: ByteSource): AsyncGenerator<Buffer> {
  const packed = copiesOf(source);
  try {
    const { value: first } = await packed.next();
    if (first === undefined) return;
    const all = Readable.from(joined(first, packed), { objectMode: false });
    const stages = unpackers(first);
    const stream = stages.reduce<Readable>(
      // The reader of the last stream receives the error.
      (from, stage) => pipeline(from, stage, () => {}),
      all,
    );
    try {
      yield* stream as AsyncIterable<Buffer>;
    } finally {
      stream.destroy();
      all.destroy();
    }
  } finally {
    source.destroy();
  }
}

async function* joined(first: Buffer, rest: AsyncGenerator<Buffer>): AsyncGenerator<Buffer> {
  yield first;
  yield* rest;
}

/** Source: RFC 1952 for gzip, RFC 8878 for frames and skippable frames of zstd. */
function unpackers(first: Buffer): Transform[] {
  if (first.length >= 4) {
    if (first.readUInt16BE() === 0x1f8b) return [createGunzip({ chunkSize })];
    const magic = first.readUInt32LE();
    if (magic === 0xfd2fb528 || magic - (magic % 16) === 0x184d2a50) {
      return [new ZstdFrames(), createZstdDecompress({ chunkSize })];
    }
  }
  return [];
}
