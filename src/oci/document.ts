import { type Digest, digestOf } from './digest.ts';

/**
 * A manifest, index or config with its exact bytes. The bytes are the identity: they are serialised again only
 * when a member has to change.
 */
export interface Document {
  readonly bytes: Buffer;
  readonly mediaType: string;
  readonly digest: Digest;
}

/** Returns a document of these bytes and computes its digest. */
export function documentOf(bytes: Buffer, mediaType: string): Document {
  return { bytes, mediaType, digest: digestOf(bytes) };
}
