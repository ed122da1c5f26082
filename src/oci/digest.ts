import { createHash } from 'node:crypto';
import { OciSyntaxError } from './syntax-error.ts';

/** `sha256:<64 hex>` or `sha512:<128 hex>`. Source: OCI image specification, descriptor.md, Digests. */
export type Digest = string & { readonly __brand: 'Digest' };
export type DigestAlgorithm = 'sha256' | 'sha512';

const hexLength: Readonly<Record<DigestAlgorithm, number>> = { sha256: 64, sha512: 128 };
const pattern = /^(?:sha256:[0-9a-f]{64}|sha512:[0-9a-f]{128})$/;

/** Returns true for a digest of a registered algorithm in lower-case hex. */
export function isDigest(text: string): text is Digest {
  return pattern.test(text);
}

/** Returns the text as a digest. Throws {@link OciSyntaxError} when it is not a digest. */
export function parseDigest(text: string): Digest {
  if (isDigest(text)) return text;
  throw new OciSyntaxError(
    'digest',
    `'${text.slice(0, 140)}' is not a digest: expected sha256: and ${hexLength.sha256} lower-case hex digits, or sha512: and ${hexLength.sha512}`,
  );
}

/** Returns the digest of the bytes. */
export function digestOf(
  bytes: Uint8Array | string,
  algorithm: DigestAlgorithm = 'sha256',
): Digest {
  return `${algorithm}:${createHash(algorithm).update(bytes).digest('hex')}` as Digest;
}

/** Returns the algorithm and the hex digits of a digest. */
export function splitDigest(digest: Digest): { algorithm: DigestAlgorithm; hex: string } {
  const colon = digest.indexOf(':');
  return {
    algorithm: digest.slice(0, colon) as DigestAlgorithm,
    hex: digest.slice(colon + 1),
  };
}

/**
 * Returns the tag under which clients list the referrers of a digest at registries without the referrers API. Source: OCI
 * distribution specification 1.1, Referrers Tag Schema.
 */
export function referrersTag(digest: Digest): string {
  return digest.replace(':', '-');
}
