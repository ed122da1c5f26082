import type { ByteSource } from '../../../storage/content/byte-source.ts';

/** The bytes of a source as an iterable, which destroys the source at its end. */
export async function* piecesOf(source: ByteSource): AsyncGenerator<Buffer> {
  try {
    for (let chunk = await source.read(); chunk !== null; chunk = await source.read()) {
      // The consumer may still read them when the memory has other bytes in it.
      yield Buffer.from(chunk.bytes);
      chunk.release();
    }
  } finally {
    source.destroy();
  }
}
