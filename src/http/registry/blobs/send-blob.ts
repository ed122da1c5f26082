import type { IncomingMessage, ServerResponse } from 'node:http';
import type { NoteBlob } from '../../../foundation/telemetry/blob-metrics.ts';
import { type Digest, splitDigest } from '../../../oci/digest.ts';
import { mediaTypes } from '../../../oci/media-type.ts';
import type { ByteRange, FoundBlob, RangeOf } from '../../../pull/blobs/found-blob.ts';
import { clientSignal } from '../../callers/client-signal.ts';
import {
  apiVersionHeader,
  contentHeaders,
  isUnmodified,
  sendUnmodified,
} from '../registry-headers.ts';
import { parseRange } from './range.ts';
import { RelayError, relay } from './relay.ts';

/** Access to the blob to send, wherever it is stored. */
export interface BlobAnswer {
  /** Returns true when the blob is known to exist for the caller. */
  isKnown(): Promise<boolean>;
  /** Returns the size in bytes. */
  size(signal: AbortSignal): Promise<number>;
  open(rangeOf: RangeOf | undefined, signal: AbortSignal): Promise<FoundBlob>;
}

/** Answers HEAD and GET of a blob. Resolves after the last byte. Throws before the headers, then destroys. */
export async function sendBlob(
  answer: BlobAnswer,
  digest: Digest,
  request: IncomingMessage,
  response: ServerResponse,
  note: NoteBlob,
): Promise<void> {
  if (isUnmodified(request, digest) && (await answer.isKnown())) {
    return sendUnmodified(response, digest);
  }
  const signal = clientSignal(response);
  if (request.method === 'HEAD') {
    const size = await answer.size(signal);
    response.writeHead(200, {
      ...contentHeaders(digest, mediaTypes.octetStream, size),
      'accept-ranges': 'bytes',
    });
    response.end();
    return;
  }
  const header = rangeHeader(request, digest);
  const rangeOf = header === undefined ? undefined : (size: number) => parseRange(header, size);
  const blob = await answer.open(rangeOf, signal);
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
  const part = rangeOf?.(blob.size);
  const whole = { start: 0, end: blob.size - 1 };
  writeHead(response, digest, blob.size, part);
  const { start, end } = part ?? whole;
  const length = end - start + 1;
  const isWhole = length === blob.size;
  const { way } = blob;
  const isHashed = isWhole && !blob.isVerified;
  try {
    await relay({
      source: blob.source,
      sink: response,
      length,
      ...(isHashed ? { digest: splitDigest(digest) } : {}),
    });
    note(way, length);
    if (isHashed) blob.onVerified?.();
  } catch (error) {
    note(way, error instanceof RelayError ? error.bytes : 0);
    throw error;
  }
}

function writeHead(
  response: ServerResponse,
  digest: Digest,
  size: number,
  part: ByteRange | undefined,
): void {
  const length = part ? part.end - part.start + 1 : size;
  const headers = {
    ...contentHeaders(digest, mediaTypes.octetStream, length),
    'accept-ranges': 'bytes',
  };
  if (part) {
    response.writeHead(206, {
      ...headers,
      'content-range': `bytes ${part.start}-${part.end}/${size}`,
    });
  } else {
    response.writeHead(200, headers);
  }
}

/** Returns the requested range; undefined if `If-Range` names other content (RFC 9110, section 13.1.5). */
function rangeHeader({ headers }: IncomingMessage, digest: Digest): string | undefined {
  const condition = headers['if-range'];
  return condition === undefined || condition === `"${digest}"` ? headers.range : undefined;
}
