import type { JsonWebKey } from 'node:crypto';
import { SshKeyError } from './ssh-key-error.ts';
import { WireReader } from './ssh-wire.ts';

const magic = Buffer.from('openssh-key-v1\0');

/**
 * Returns the first key in a file that ssh-keygen wrote; undefined for another format. Throws {@link SshKeyError} for
 * an encrypted or damaged key. Source: PROTOCOL.key of OpenSSH.
 */
export function openSshKeyIn(text: string): JsonWebKey | undefined {
  const frame = /^-----BEGIN OPENSSH PRIVATE KEY-----([\sA-Za-z0-9+/=]*)-----END OPENSSH/;
  if (!text.startsWith('-----BEGIN OPENSSH PRIVATE KEY-----')) return undefined;
  const bytes = Buffer.from(frame.exec(text)?.[1] ?? '', 'base64');
  try {
    return readFile(bytes);
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    throw new SshKeyError('is damaged: its file is not complete');
  }
}

function readFile(bytes: Buffer): JsonWebKey {
  if (!bytes.subarray(0, magic.length).equals(magic)) throw new RangeError('no key');
  const file = new WireReader(bytes.subarray(magic.length));
  const cipher = file.text();
  // Name and options of the function that makes a key of the passphrase.
  file.string();
  file.string();
  if (file.uint32() < 1) throw new RangeError('no key');
  // The public key, which the private part has again.
  file.string();
  if (cipher !== 'none') throw SshKeyError.encrypted();
  const keys = new WireReader(file.string());
  const check = keys.uint32();
  if (keys.uint32() !== check) throw new RangeError('no key');
  return readKey(keys.text(), keys);
}

/** Source: RFC 8709 and RFC 5656 for the public parts, draft-miller-ssh-agent, section 3.2, for the private parts. */
function readKey(type: string, keys: WireReader): JsonWebKey {
  if (type === 'ssh-ed25519') {
    const x = encoded(keys.string());
    return { kty: 'OKP', crv: 'Ed25519', x, d: encoded(keys.string().subarray(0, 32)) };
  }
  const [, bits] = /^ecdsa-sha2-nistp(256|384|521)$/.exec(type) ?? [];
  if (bits !== undefined) return readEcdsa(`P-${bits}`, Math.ceil(Number(bits) / 8), keys);
  if (type === 'ssh-rsa') {
    const next = () => encoded(keys.number());
    // In the order of the file.
    return { kty: 'RSA', n: next(), e: next(), d: next(), qi: next(), p: next(), q: next() };
  }
  if (type.startsWith('sk-')) {
    throw new SshKeyError(
      'belongs to a security key (FIDO), which has to be touched: specify a key without a device',
    );
  }
  throw SshKeyError.otherType(JSON.stringify(type.slice(0, 40)));
}

function readEcdsa(crv: string, size: number, keys: WireReader): JsonWebKey {
  // The curve, which the type names too.
  keys.string();
  const point = keys.string();
  const secret = keys.number();
  if (point.length !== 1 + 2 * size || secret.length > size) throw new RangeError('no key');
  const d = Buffer.concat([Buffer.alloc(size - secret.length), secret]);
  const [x, y] = [point.subarray(1, 1 + size), point.subarray(1 + size)];
  return { kty: 'EC', crv, x: encoded(x), y: encoded(y), d: encoded(d) };
}

function encoded(bytes: Buffer): string {
  return bytes.toString('base64url');
}
