import type { Readable } from 'node:stream';
import { Fault } from '../../foundation/fault.ts';
import type { ByteSource } from '../../storage/content/byte-source.ts';

/** A response whose body has not been read yet: it must be read to its end or destroyed. */
export interface Answer {
  readonly status: number;
  /** By lower-case name. */
  readonly headers: ReadonlyMap<string, string>;
  /** Bytes, where the server said how many. */
  readonly contentLength: number | undefined;
  readonly body: ByteSource;
}

/** The chunks of a stream, pulled one at a time. */
export function sourceOfStream(stream: Readable): ByteSource {
  const chunks = stream.iterator({ destroyOnReturn: true });
  return {
    async read() {
      const { done, value } = await chunks.next();
      return done ? null : { bytes: value as Uint8Array, release() {} };
    },
    destroy(reason) {
      // Nobody listens any more; an error event without a listener would end the process.
      stream.on('error', () => {});
      stream.destroy(reason);
    },
  };
}

/** The whole body; throws a {@link Fault} when it is larger than `limit` bytes. */
export async function readAll(source: ByteSource, limit: number, what: string): Promise<Buffer> {
  const parts: Buffer[] = [];
  let size = 0;
  for (;;) {
    const chunk = await source.read();
    if (chunk === null) return Buffer.concat(parts, size);
    size += chunk.bytes.length;
    if (size > limit) {
      chunk.release();
      source.destroy();
      throw new Fault('upstream', `${what} is larger than the ${limit} bytes that are allowed`, {
        phase: 'upstream',
      });
    }
    parts.push(Buffer.from(chunk.bytes));
    chunk.release();
  }
}

/** So many bytes of a body after those that are skipped, fewer where it ends; the rest is not waited for. */
export async function readPart(source: ByteSource, skip: number, length: number): Promise<Buffer> {
  const parts: Buffer[] = [];
  const end = skip + length;
  let position = 0;
  try {
    while (position < end) {
      const chunk = await source.read();
      if (chunk === null) break;
      const { bytes } = chunk;
      parts.push(Buffer.from(bytes.subarray(Math.max(0, skip - position), end - position)));
      position += bytes.length;
      chunk.release();
    }
    return Buffer.concat(parts);
  } finally {
    source.destroy();
  }
}
