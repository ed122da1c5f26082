import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from 'node:crypto';

const ivBytes = 12;
const tagBytes = 16;
const purpose = 'sluice session 1';

/** Encrypts the login of a session with a key that follows from the value of its cookie. Source: RFC 5869. */
export function sealLogin(cookie: Buffer, login: string): Buffer {
  const iv = randomBytes(ivBytes);
  const cipher = createCipheriv('aes-256-gcm', keyOf(cookie), iv);
  return Buffer.concat([iv, cipher.update(login, 'utf8'), cipher.final(), cipher.getAuthTag()]);
}

/** Returns the login of a session; undefined if the row was changed. */
export function openLogin(cookie: Buffer, sealed: Buffer): string | undefined {
  try {
    const decipher = createDecipheriv('aes-256-gcm', keyOf(cookie), sealed.subarray(0, ivBytes));
    decipher.setAuthTag(sealed.subarray(-tagBytes));
    const text = decipher.update(sealed.subarray(ivBytes, -tagBytes));
    return Buffer.concat([text, decipher.final()]).toString('utf8');
  } catch {
    return undefined;
  }
}

function keyOf(cookie: Buffer): Buffer {
  return Buffer.from(hkdfSync('sha256', cookie, Buffer.alloc(0), purpose, 32));
}
