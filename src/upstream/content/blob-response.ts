import { Fault } from '../../foundation/fault.ts';
import { type Digest, digestOf, splitDigest } from '../../oci/digest.ts';
import type { UpstreamResponse } from '../exchange/upstream-response.ts';

/** A requested blob, or the rest of one. */
export interface AskedBlob {
  readonly registry: string;
  readonly digest: Digest;
  /** First requested byte. */
  readonly offset: number;
  /** Bytes of the whole blob, where its manifest or an earlier response specified them. */
  readonly size: number | undefined;
}

/** Position of a response's body in its blob. */
export interface BlobPart {
  /** Position of the first byte. */
  readonly offset: number;
  /** Bytes of the whole blob; undefined when the registry does not report them. */
  readonly total: number | undefined;
}

/**
 * Returns the part of a blob that a response contains. Throws a {@link Fault} for a response that cannot be that blob:
 * no later check would detect a part with a gap, or an empty body. A 206 without `Content-Range` counts as the
 * requested part. Source: RFC 9110, sections 14.4 and 15.3.7.
 */
export function partOfBlob(response: UpstreamResponse, asked: AskedBlob): BlobPart {
  const part = readPlace(response, asked);
  const { total } = part;
  if (total !== undefined && total !== (asked.size ?? total)) {
    throw wrong(asked, `has ${total} bytes for it, not ${asked.size} as its manifest says`);
  }
  checkNotEmpty(asked, total);
  return part;
}

/** Throws a {@link Fault} for a size of 0, unless the digest is the digest of empty content. */
export function checkNotEmpty(
  asked: Pick<AskedBlob, 'registry' | 'digest'>,
  size: number | undefined,
): void {
  if (size === 0 && asked.digest !== emptyDigest(asked.digest)) {
    throw wrong(asked, 'returned no data');
  }
}

function readPlace(response: UpstreamResponse, asked: AskedBlob): BlobPart {
  const { status, headers, contentLength } = response;
  if (status === 200) return { offset: 0, total: contentLength };
  if (status !== 206) throw wrong(asked, `answered ${status}`);
  const field = headers.get('content-range');
  if (field === undefined) return { offset: asked.offset, total: undefined };
  const [, first, last, all] = /^bytes (\d{1,15})-(\d{1,15})\/(\d{1,15}|\*)$/.exec(field) ?? [];
  const [offset, end] = [Number(first), Number(last)];
  const total = all === undefined || all === '*' ? undefined : Number(all);
  const isRange = first !== undefined && offset <= end && end < (total ?? Number.POSITIVE_INFINITY);
  const isWanted = offset <= asked.offset && asked.offset <= end;
  const isLong = contentLength === undefined || contentLength === end - offset + 1;
  if (isRange && isWanted && isLong) return { offset, total };
  const shown = field.replace(/[^\x20-\x7e]/g, ' ').slice(0, 80);
  throw wrong(
    asked,
    `returned the wrong part: Content-Range is '${shown}', but the request was for byte ${asked.offset}`,
  );
}

function emptyDigest(digest: Digest): Digest {
  return digestOf(Buffer.alloc(0), splitDigest(digest).algorithm);
}

function wrong({ registry, digest }: Pick<AskedBlob, 'registry' | 'digest'>, what: string): Fault {
  return new Fault(
    'upstream',
    `The registry ${registry} cannot deliver the blob ${digest}: it ${what}`,
    { phase: 'upstream' },
  );
}
