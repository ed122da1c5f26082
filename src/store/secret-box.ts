import { createCipheriv, createDecipheriv, createHash, randomBytes } from 'node:crypto';

/** Keeps secrets out of the database: what is in there is of no use without the key, which is elsewhere. */
export interface SecretBox {
  /**
   * The text, encrypted and bound to its place: what was sealed for one owner cannot be opened for another.
   * @param place names the row and column, such as `credentials 12`
   */
  seal(text: string, place: string): string;
  /** The text again. Throws an `Error` when it was changed, was sealed with another key or for another place. */
  open(sealed: string, place: string): string;
}

// AES-256-GCM with a random nonce. Source: NIST SP 800-38D; 2^32 seals with one key are safe.
const algorithm = 'aes-256-gcm';
const nonceBytes = 12;
const tagBytes = 16;
const version = 's1';

/** @param key secret of at least 32 bytes */
export function createSecretBox(key: Uint8Array): SecretBox {
  const cipherKey = createHash('sha256').update('sluice secret box 1\0').update(key).digest();
  return {
    seal(text, place) {
      const nonce = randomBytes(nonceBytes);
      const cipher = createCipheriv(algorithm, cipherKey, nonce).setAAD(Buffer.from(place));
      const body = Buffer.concat([cipher.update(text, 'utf8'), cipher.final()]);
      const sealed = Buffer.concat([nonce, body, cipher.getAuthTag()]);
      return `${version}.${sealed.toString('base64url')}`;
    },

    open(sealed, place) {
      const [found, encoded = ''] = sealed.split('.');
      const bytes = Buffer.from(encoded, 'base64url');
      if (found !== version || bytes.length < nonceBytes + tagBytes) throw unreadable();
      try {
        const decipher = createDecipheriv(algorithm, cipherKey, bytes.subarray(0, nonceBytes))
          .setAAD(Buffer.from(place))
          .setAuthTag(bytes.subarray(-tagBytes));
        const body = bytes.subarray(nonceBytes, -tagBytes);
        return Buffer.concat([decipher.update(body), decipher.final()]).toString('utf8');
      } catch (cause) {
        throw unreadable(cause);
      }
    },
  };
}

function unreadable(cause?: unknown): Error {
  return new Error(
    'A secret cannot be read: it was sealed with another key, or changed; restore secrets.key',
    { cause },
  );
}
