import { type Digest, digestOf } from './digest.ts';

/**
 * A manifest, index or config exactly as it came or was written. The bytes are the identity:
 * they are never parsed and serialised again unless something in them has to change.
 */
export interface Document {
  readonly bytes: Buffer;
  readonly mediaType: string;
  readonly digest: Digest;
}

/** A document of these bytes, with its digest computed. */
export function documentOf(bytes: Buffer, mediaType: string): Document {
  return { bytes, mediaType, digest: digestOf(bytes) };
}
