import { createPrivateKey, type KeyObject, sign } from 'node:crypto';

/** Signs text with the operator's key. */
export interface SifSigner {
  /** The same text gives the same signature. */
  sign(text: Buffer): Buffer;
}

/**
 * Returns a signer with a private key in PEM. Throws an `Error` for any key that is not Ed25519 or RSA: other kinds
 * give a different signature, and so a different file, each time. The message completes a sentence that names the key.
 */
export function createSifSigner(pem: string): SifSigner {
  let key: KeyObject;
  try {
    key = createPrivateKey(pem);
  } catch {
    // The original error may quote the key file.
    throw new Error('is not a private key in PEM without a passphrase');
  }
  const { asymmetricKeyType: type } = key;
  if (type !== 'ed25519' && type !== 'rsa') {
    throw new Error(
      `is a key of type ${type}: create an Ed25519 key (openssl genpkey -algorithm ed25519)`,
    );
  }
  const algorithm = type === 'rsa' ? 'sha256' : null;
  return { sign: text => sign(algorithm, text, key) };
}
