import { randomUUID } from 'node:crypto';
import { mediaTypes } from '../../../oci/media-type.ts';
import type { ByteRange } from '../../../pull/index.ts';
import type { ByteSource, Chunk } from '../../../storage/content/byte-source.ts';

/** Several parts of a blob as one body. Source: RFC 9110, section 14.6. */
export interface Multipart {
  /** `multipart/byteranges` with the boundary. */
  readonly contentType: string;
  /** Bytes of the body. */
  readonly length: number;
  readonly source: ByteSource;
}

/**
 * Returns the body with the parts in their order. Opens each part when the one before it has been read.
 *
 * @param first the source of the first part, which is open already
 */
export function multipartOf(
  parts: readonly ByteRange[],
  size: number,
  first: ByteSource,
  open: (part: ByteRange) => Promise<ByteSource>,
): Multipart {
  // Nobody can guess it, so no blob contains it.
  const boundary = randomUUID();
  const heads = parts.map(({ start, end }, at) =>
    Buffer.from(
      `${at === 0 ? '' : '\r\n'}--${boundary}\r\nContent-Type: ${mediaTypes.octetStream}\r\nContent-Range: bytes ${start}-${end}/${size}\r\n\r\n`,
    ),
  );
  const tail = Buffer.from(`\r\n--${boundary}--\r\n`);
  let source = first;
  let stopped: Error | undefined;

  async function* chunks(): AsyncGenerator<Chunk> {
    for (const [at, part] of parts.entries()) {
      yield chunkOf(heads[at] as Buffer);
      if (at > 0) {
        // The part before ends after this one begins: a copy of the blob that is still being made goes on.
        const next = await open(part);
        source.destroy(stopped);
        source = next;
        if (stopped) next.destroy(stopped);
      }
      let left = lengthOf(part);
      while (left > 0) {
        if (stopped) throw stopped;
        const chunk = await source.read();
        left -= chunk?.bytes.length ?? left + 1;
        if (!chunk || left < 0) {
          chunk?.release();
          throw new Error(`the source of the bytes ${part.start}-${part.end} has another length`);
        }
        yield chunk;
      }
    }
    yield chunkOf(tail);
  }

  const body = chunks();
  const overhead = heads.reduce((sum, head) => sum + head.length, tail.length);
  return {
    contentType: `multipart/byteranges; boundary=${boundary}`,
    length: parts.reduce((sum, part) => sum + lengthOf(part), overhead),
    source: {
      async read() {
        const { value, done } = await body.next();
        return done ? null : value;
      },
      destroy(reason) {
        stopped ??= reason ?? new Error('the answer has ended');
        source.destroy(reason);
      },
    },
  };
}

export function lengthOf({ start, end }: ByteRange): number {
  return end - start + 1;
}

function chunkOf(bytes: Buffer): Chunk {
  return { bytes, release() {} };
}
