import { setImmediate as nextTurn } from 'node:timers/promises';

/** Some bytes of a body, on loan. */
export interface Chunk {
  /** Valid until `release()`; afterwards the memory holds other bytes. */
  readonly bytes: Uint8Array;
  /** Gives the memory back; a second call does nothing. */
  release(): void;
}

/**
 * A body that is pulled chunk by chunk. A reader may hold some chunks while it reads more, but must
 * release them in time: a source stops when all its memory is on loan.
 */
export interface ByteSource {
  /**
   * Returns the next chunk (never empty), or null at the end. Rejects when the connection breaks,
   * stalls or ends early; chunks that arrived before are returned first. One call at a time.
   */
  read(): Promise<Chunk | null>;
  /** Frees the connection at once; a waiting `read` rejects with the reason. Further calls do nothing. */
  destroy(reason?: Error): void;
}

/** Returns the source when its first chunk is here. Rejects, and destroys it, when that chunk cannot be read. */
export async function begun(source: ByteSource): Promise<ByteSource> {
  let first: Chunk | null | undefined = await source.read().catch(error => {
    source.destroy();
    throw error;
  });
  return {
    async read() {
      const chunk = first === undefined ? await source.read() : first;
      first = undefined;
      return chunk;
    },
    destroy(reason) {
      first?.release();
      first = undefined;
      source.destroy(reason);
    },
  };
}

/**
 * Reads a source to its end, and destroys it.
 *
 * @param take must be done with the bytes when it returns, or when its promise settles
 */
export async function drain(
  source: ByteSource,
  take: (bytes: Uint8Array) => unknown,
): Promise<void> {
  try {
    for (let chunk = await source.read(); chunk !== null; chunk = await source.read()) {
      try {
        await take(chunk.bytes);
      } finally {
        chunk.release();
      }
    }
  } finally {
    source.destroy();
  }
}

/** Yields copies of the chunks of a source, and destroys it at the end. The consumer may keep them, or stop early. */
export async function* copiesOf(source: ByteSource): AsyncGenerator<Buffer> {
  try {
    for (let chunk = await source.read(); chunk !== null; chunk = await source.read()) {
      const copy = Buffer.from(chunk.bytes);
      chunk.release();
      yield copy;
    }
  } finally {
    source.destroy();
  }
}

// Hashing this much takes about 1 ms.
const pieceBytes = 512 * 1024;

/** Returns the bytes as a source. It yields to other work between the pieces. */
export function sourceOfBytes(bytes: Uint8Array): ByteSource {
  let position = 0;
  return {
    async read() {
      if (position >= bytes.length) return null;
      if (position > 0) await nextTurn();
      const piece = bytes.subarray(position, position + pieceBytes);
      position += piece.length;
      return { bytes: piece, release() {} };
    },
    destroy() {
      position = bytes.length;
    },
  };
}
