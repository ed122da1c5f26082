import { randomUUID } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { NoteBlob } from '../../../foundation/telemetry/index.ts';
import { type Digest, splitDigest } from '../../../oci/digest.ts';
import { mediaTypes } from '../../../oci/media-type.ts';
import type { ByteRange, FoundBlob, RangeOf } from '../../../pull/index.ts';
import type { ByteSource, Chunk } from '../../../storage/content/byte-source.ts';
import { clientSignal } from '../../request-state.ts';
import {
  apiVersionHeader,
  contentHeaders,
  isUnmodified,
  sendUnmodified,
} from '../registry-responses.ts';
import { parseRanges } from './range.ts';
import { RelayError, relay } from './relay.ts';

/** Access to the blob to send, wherever it is stored. */
export interface OfferedBlob {
  /** Returns true when the blob is known to exist for the caller. */
  isKnown(): Promise<boolean>;
  /** Returns the size in bytes. */
  size(signal: AbortSignal): Promise<number>;
  open(rangeOf: RangeOf | undefined, signal: AbortSignal): Promise<FoundBlob>;
}

/** Answers HEAD and GET of a blob. Resolves after the last byte. Throws before the headers, then destroys. */
export async function sendBlob(
  offered: OfferedBlob,
  digest: Digest,
  request: IncomingMessage,
  response: ServerResponse,
  note: NoteBlob,
): Promise<void> {
  if (isUnmodified(request, digest) && (await offered.isKnown())) {
    return sendUnmodified(response, digest);
  }
  const signal = clientSignal(response);
  if (request.method === 'HEAD') {
    const size = await offered.size(signal);
    response.writeHead(200, {
      ...contentHeaders(digest, mediaTypes.octetStream, size),
      'accept-ranges': 'bytes',
    });
    response.end();
    return;
  }
  const header = rangeHeader(request, digest);
  const rangesOf = (size: number) => parseRanges(header, size);
  const blob = await offered.open(header === undefined ? undefined : firstOf(rangesOf), signal);
  if (blob.kind === 'redirect') {
    // No body and a closed connection: some clients hang on anything else.
    response.writeHead(307, {
      location: blob.location.href,
      'content-length': '0',
      'docker-content-digest': digest,
      connection: 'close',
      ...apiVersionHeader,
    });
    response.end();
    note('redirected', 0);
    return;
  }
  const openPart = async (part: ByteRange): Promise<ByteSource> => {
    const next = await offered.open(() => part, signal);
    if (next.kind === 'stream' && next.size === blob.size) return next.source;
    if (next.kind === 'stream') next.source.destroy();
    throw new Error('the blob is elsewhere now');
  };
  const body = bodyOf(blob, rangesOf(blob.size), openPart);
  const { contentType = mediaTypes.octetStream, contentRange, source, length } = body;
  response.writeHead(body.isPart ? 206 : 200, {
    ...contentHeaders(digest, contentType, length),
    'accept-ranges': 'bytes',
    ...(contentRange === undefined ? {} : { 'content-range': contentRange }),
  });
  const { delivery } = blob;
  const isHashed = body.isWhole && !blob.isVerified;
  try {
    await relay({
      source,
      sink: response,
      length,
      ...(isHashed ? { digest: splitDigest(digest) } : {}),
    });
    note(delivery, length);
    if (isHashed) blob.onVerified?.();
  } catch (error) {
    note(delivery, error instanceof RelayError ? error.bytes : 0);
    throw error;
  }
}

function firstOf(rangesOf: (size: number) => readonly ByteRange[] | undefined): RangeOf {
  return size => rangesOf(size)?.[0];
}

/** The body of a response. */
interface BlobBody {
  readonly source: ByteSource;
  readonly length: number;
  /** True for a response to a range. */
  readonly isPart: boolean;
  /** True for all bytes of the blob. */
  readonly isWhole: boolean;
  readonly contentRange?: string;
  readonly contentType?: string;
}

function bodyOf(
  { source, size }: Extract<FoundBlob, { kind: 'stream' }>,
  parts: readonly ByteRange[] | undefined,
  openPart: (part: ByteRange) => Promise<ByteSource>,
): BlobBody {
  const [part, ...others] = parts ?? [];
  if (parts === undefined || part === undefined) {
    return { source, length: size, isPart: false, isWhole: true };
  }
  if (others.length > 0) {
    return { ...multipartOf(parts, size, source, openPart), isPart: true, isWhole: false };
  }
  const length = lengthOf(part);
  const contentRange = `bytes ${part.start}-${part.end}/${size}`;
  return { source, length, contentRange, isPart: true, isWhole: length === size };
}

/** Returns the requested range; undefined if `If-Range` names other content (RFC 9110, section 13.1.5). */
function rangeHeader({ headers }: IncomingMessage, digest: Digest): string | undefined {
  const condition = headers['if-range'];
  return condition === undefined || condition === `"${digest}"` ? headers.range : undefined;
}

/** Several parts of a blob as one body. Source: RFC 9110, section 14.6. */
interface Multipart {
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
function multipartOf(
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
        stopped ??= reason ?? new Error('the response has ended');
        source.destroy(reason);
      },
    },
  };
}

function lengthOf({ start, end }: ByteRange): number {
  return end - start + 1;
}

function chunkOf(bytes: Buffer): Chunk {
  return { bytes, release() {} };
}
