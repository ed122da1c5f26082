import { createHash } from 'node:crypto';
import { OciSyntaxError } from './syntax-error.ts';

/** `sha256:<64 hex>` or `sha512:<128 hex>`. Source: OCI image specification, descriptor.md, Digests. */
export type Digest = string & { readonly __brand: 'Digest' };
export type DigestAlgorithm = 'sha256' | 'sha512';

const hexLength: Readonly<Record<DigestAlgorithm, number>> = { sha256: 64, sha512: 128 };
const pattern = /^(?:sha256:[0-9a-f]{64}|sha512:[0-9a-f]{128})$/;

/** True for a digest of a registered algorithm, in lower-case hex. */
export function isDigest(text: string): text is Digest {
  return pattern.test(text);
}

/** Returns the text as a digest; throws {@link OciSyntaxError} when it is none. */
export function parseDigest(text: string): Digest {
  if (isDigest(text)) return text;
  throw new OciSyntaxError(
    'digest',
    `'${text.slice(0, 140)}' is not a digest: expected sha256: and ${hexLength.sha256} lower-case hex digits, or sha512: and ${hexLength.sha512}`,
  );
}

/** The digest of the bytes. */
export function digestOf(
  bytes: Uint8Array | string,
  algorithm: DigestAlgorithm = 'sha256',
): Digest {
  return `${algorithm}:${createHash(algorithm).update(bytes).digest('hex')}` as Digest;
}

/** The algorithm and the hex part. */
export function splitDigest(digest: Digest): { algorithm: DigestAlgorithm; hex: string } {
  const colon = digest.indexOf(':');
  return {
    algorithm: digest.slice(0, colon) as DigestAlgorithm,
    hex: digest.slice(colon + 1),
  };
}
