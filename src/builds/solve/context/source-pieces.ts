import type { ByteSource } from '../../../storage/content/byte-source.ts';

/** Returns the bytes of a source as an iterable that destroys the source when it ends. */
export async function* piecesOf(source: ByteSource): AsyncGenerator<Buffer> {
  try {
    for (let chunk = await source.read(); chunk !== null; chunk = await source.read()) {
      // A copy: the consumer may still read it after the buffer has been reused.
      yield Buffer.from(chunk.bytes);
      chunk.release();
    }
  } finally {
    source.destroy();
  }
}
