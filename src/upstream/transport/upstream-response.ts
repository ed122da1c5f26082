import type { Readable } from 'node:stream';
import { Fault } from '../../foundation/fault.ts';
import type { ByteSource } from '../../storage/content/byte-source.ts';

/** A response whose body has not been read yet: the caller must read it to its end or destroy it. */
export interface UpstreamResponse {
  readonly status: number;
  /** By lower-case name. */
  readonly headers: ReadonlyMap<string, string>;
  /** Bytes, where the server specified them. */
  readonly contentLength: number | undefined;
  readonly body: ByteSource;
  /** Address of a redirect to pass on, checked for that. All other redirects are followed or are failures. */
  readonly redirect?: URL;
}

/** Returns a source that pulls the chunks of a stream one at a time. */
export function sourceOfStream(stream: Readable): ByteSource {
  const chunks = stream.iterator({ destroyOnReturn: true });
  return {
    async read() {
      const { done, value } = await chunks.next();
      return done ? null : { bytes: value as Uint8Array, release() {} };
    },
    destroy(reason) {
      // Nothing listens to the stream any more, and an error event without a listener would end the process.
      stream.on('error', () => {});
      stream.destroy(reason);
    },
  };
}

/** Reads the whole body. Throws a {@link Fault} when it is larger than `limit` bytes. */
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
      throw new Fault(
        'upstream',
        `${what} is larger than the ${limit} bytes that Sluice reads: check that it is the right address, and that no proxy answers in its place`,
        {
          phase: 'upstream',
        },
      );
    }
    parts.push(Buffer.from(chunk.bytes));
    chunk.release();
  }
}

/** Skips `skip` bytes and returns the next `length`, or fewer if the body ends first. Does not wait for the rest. */
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
