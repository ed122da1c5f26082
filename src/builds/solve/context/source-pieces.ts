import type { ByteSource } from '../../../storage/content/byte-source.ts';

/** Returns the bytes of a source as an iterable that destroys the source when it ends. */
export async function* piecesOf(source: ByteSource): AsyncGenerator<Buffer> {
  try {
    for (let chunk = await source.read(); chunk !== null; chunk = await source.read()) {
      // A copy: the consumer may take its time, or never ask for the next piece.
      const piece = Buffer.from(chunk.bytes);
      chunk.release();
      yield piece;
    }
  } finally {
    source.destroy();
  }
}
