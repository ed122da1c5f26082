import { constants, createDecipheriv, type KeyObject, privateDecrypt } from 'node:crypto';

const version = '1';
const forPublicKey = 'P';
const cipher = 'aes-128-ecb';
const base64 = /^[A-Za-z0-9+/]+={0,2}$/;

/**
 * Returns the secret in a packet, as platforms in the field send it to the owner of a private key: `1\P\<key>\<data>`.
 * The key is an AES-128 key, encrypted with RSA (PKCS #1 v1.5). The data is encrypted with AES in ECB mode (PKCS #7
 * padding). Both are in base64. Nothing in a packet proves who wrote it: accept it only from a platform that is
 * trusted anyway. Throws an `Error` for text that is not a packet, or for a packet made for another key.
 */
export function openPacket(packet: string, privateKey: KeyObject): string {
  const [found, kind, key = '', data = '', ...more] = packet.split('\\');
  if (found !== version || kind !== forPublicKey || more.length > 0) throw unreadable();
  if (!base64.test(key) || !base64.test(data)) throw unreadable();
  try {
    // With a wrong key this returns random bytes of a random length, which reveals nothing about the padding.
    const contentKey = privateDecrypt(
      { key: privateKey, padding: constants.RSA_PKCS1_PADDING },
      Buffer.from(key, 'base64'),
    );
    const decipher = createDecipheriv(cipher, contentKey, null);
    const clear = Buffer.concat([decipher.update(data, 'base64'), decipher.final()]);
    return new TextDecoder('utf-8', { fatal: true }).decode(clear);
  } catch {
    // One error for all causes.
    throw unreadable();
  }
}

function unreadable(): Error {
  return new Error('The packet is malformed, or was encrypted for another key');
}
