import {
  constants,
  createCipheriv,
  createPublicKey,
  publicEncrypt,
  randomBytes,
} from 'node:crypto';

/** Makes a packet as real platforms do, for the given public key (DER, base64). */
export function sealPacket(secret: string, publicKey: string, keyBytes = 16): string {
  const contentKey = randomBytes(keyBytes);
  const encrypter = createCipheriv(`aes-${keyBytes * 8}-ecb`, contentKey, null);
  const data = Buffer.concat([encrypter.update(secret, 'utf8'), encrypter.final()]);
  const key = createPublicKey({
    key: Buffer.from(publicKey, 'base64'),
    type: 'spki',
    format: 'der',
  });
  const encryptedKey = publicEncrypt({ key, padding: constants.RSA_PKCS1_PADDING }, contentKey);
  return `1\\P\\${encryptedKey.toString('base64')}\\${data.toString('base64')}`;
}
