import { createCipheriv, createDecipheriv, createHash, randomBytes } from 'node:crypto';
import { Fault } from '../../../foundation/fault.ts';

/** Encrypts secrets in the database: the rows are useless without the key, which is stored elsewhere. */
export interface SecretBox {
  /**
   * Returns the text, encrypted with the newest key and bound to its place: a secret that was sealed for one owner
   * cannot be opened for another.
   * @param place names the row and column, such as `credentials 12`
   */
  seal(text: string, place: string): string;
  /**
   * Returns the decrypted text. Throws a {@link Fault} (503) when it was changed, or was sealed with another key or
   * for another place.
   */
  open(sealed: string, place: string): string;
  /** Prefix of every text that {@link seal} returns: it names the key. */
  readonly prefix: string;
}

// AES-256-GCM with a random nonce. Source: NIST SP 800-38D; 2^32 seals with one key are safe.
const algorithm = 'aes-256-gcm';
const nonceBytes = 12;
const tagBytes = 16;
// `s2.<key id>.<text>`; in `s1.<text>`, of earlier versions, the key has no name.
const version = 's2';
const unnamed = 's1';
const keyIdBytes = 6;

interface CipherKey {
  readonly id: string;
  readonly bytes: Uint8Array;
}

/**
 * @param key secret of at least 32 bytes
 * @param previous an older key, which opens secrets that were sealed with it
 */
export function createSecretBox(key: Uint8Array, previous?: Uint8Array): SecretBox {
  const newest = cipherKeyOf(key);
  const keys = previous ? [newest, cipherKeyOf(previous)] : [newest];
  return {
    prefix: `${version}.${newest.id}.`,

    seal(text, place) {
      const nonce = randomBytes(nonceBytes);
      const cipher = createCipheriv(algorithm, newest.bytes, nonce).setAAD(Buffer.from(place));
      const body = Buffer.concat([cipher.update(text, 'utf8'), cipher.final()]);
      const sealed = Buffer.concat([nonce, body, cipher.getAuthTag()]);
      return `${version}.${newest.id}.${sealed.toString('base64url')}`;
    },

    open(sealed, place) {
      const [form, ...rest] = sealed.split('.');
      const [id, encoded = ''] = form === version ? rest : [undefined, rest[0]];
      if (form !== version && form !== unnamed) throw unreadable();
      const bytes = Buffer.from(encoded, 'base64url');
      if (bytes.length < nonceBytes + tagBytes) throw unreadable();
      let cause: unknown;
      for (const candidate of keys) {
        if (id !== undefined && id !== candidate.id) continue;
        try {
          return decipher(bytes, candidate, place);
        } catch (error) {
          cause = error;
        }
      }
      throw unreadable(cause);
    },
  };
}

function cipherKeyOf(key: Uint8Array): CipherKey {
  const bytes = createHash('sha256').update('sluice secret box 1\0').update(key).digest();
  const id = createHash('sha256').update('sluice key id\0').update(bytes).digest();
  return { bytes, id: id.subarray(0, keyIdBytes).toString('base64url') };
}

function decipher(bytes: Buffer, key: CipherKey, place: string): string {
  const opened = createDecipheriv(algorithm, key.bytes, bytes.subarray(0, nonceBytes))
    .setAAD(Buffer.from(place))
    .setAuthTag(bytes.subarray(-tagBytes));
  const body = bytes.subarray(nonceBytes, -tagBytes);
  return Buffer.concat([opened.update(body), opened.final()]).toString('utf8');
}

function unreadable(cause?: unknown): Fault {
  return new Fault(
    'unavailable',
    'A stored secret cannot be read: its key is lost, or the secret was changed. Ask the operator to restore secrets.key, or remove these credentials and add them again',
    { phase: 'credentials', cause },
  );
}
