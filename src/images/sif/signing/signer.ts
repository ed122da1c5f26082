import { createPrivateKey, type KeyObject, sign } from 'node:crypto';

/** Signs texts with the key of the operator. */
export interface SifSigner {
  /** The same text gives the same signature. */
  sign(text: Buffer): Buffer;
}

/**
 * A signer with a private key in PEM. Throws an `Error` that ends a sentence which names the key, for anything that
 * is not a key of Ed25519 or RSA: other kinds give another signature, and another file, each time.
 */
export function createSifSigner(pem: string): SifSigner {
  let key: KeyObject;
  try {
    key = createPrivateKey(pem);
  } catch {
    // The reason may quote what was read.
    throw new Error('is not a private key in PEM without a passphrase');
  }
  const { asymmetricKeyType: type } = key;
  if (type !== 'ed25519' && type !== 'rsa') {
    throw new Error(
      `is a key of ${type}: make one of Ed25519 (openssl genpkey -algorithm ed25519)`,
    );
  }
  const algorithm = type === 'rsa' ? 'sha256' : null;
  return { sign: text => sign(algorithm, text, key) };
}
