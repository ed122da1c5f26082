import { createPrivateKey, type JsonWebKey, type KeyObject, sign } from 'node:crypto';
import { promisify } from 'node:util';

/** A private key for an agent. */
export interface SshKey {
  /** The public key, as agents and servers exchange it. Source: RFC 4253, section 6.6. */
  readonly publicKey: Buffer;
  /**
   * Returns a signature in the same form; undefined for an algorithm that the key does not have.
   *
   * @param flags of the request. Source: draft-miller-ssh-agent, section 3.6.1
   */
  sign(data: Buffer, flags: number): Promise<Buffer | undefined>;
}

// An RSA key of 4096 bits has 3.4 KiB. The time to read a key grows with its size.
const mostFileBytes = 24 * 1024;
const rsaBits = { least: 1024, most: 8192 } as const;

/**
 * Returns the private key in a file of OpenSSH or in PEM format: Ed25519, ECDSA, or RSA. Throws {@link SshKeyError} for
 * any other content, and for an encrypted key.
 */
export function readSshKey(file: string | Uint8Array): SshKey {
  const bytes = Buffer.from(file as Uint8Array);
  if (bytes.length > mostFileBytes) throw new SshKeyError(`has more than ${mostFileBytes} bytes`);
  const text = bytes.toString('latin1').trim();
  const jwk = openSshKeyIn(text) ?? pemKeyIn(text);
  try {
    if (jwk.kty === 'RSA') return rsaKey(jwk);
    return jwk.kty === 'EC' ? ecdsaKey(jwk) : ed25519Key(jwk);
  } catch (error) {
    if (error instanceof SshKeyError) throw error;
    throw new SshKeyError('is damaged: its numbers do not belong together');
  }
}

function pemKeyIn(text: string): JsonWebKey {
  if (/^-----BEGIN ENCRYPTED |^Proc-Type: 4,ENCRYPTED/m.test(text)) throw SshKeyError.encrypted();
  if (/^(?:ssh-|ecdsa-|sk-)|^-----BEGIN (?:RSA )?PUBLIC KEY|^---- BEGIN SSH2 PUBLIC/.test(text)) {
    throw new SshKeyError('is a public key: specify the private key');
  }
  if (text.startsWith('PuTTY-User-Key-File')) {
    throw new SshKeyError('has the format of PuTTY: convert it (puttygen KEY -O private-openssh)');
  }
  if (!/^-----BEGIN (?:RSA |EC |DSA )?PRIVATE KEY-----/.test(text)) {
    throw new SshKeyError('is not a private key in the format of OpenSSH or in PEM format');
  }
  const key = parsedPem(text);
  const { asymmetricKeyType: type = 'unknown', asymmetricKeyDetails: details } = key;
  if (type === 'rsa') checkBits(details?.modulusLength ?? 0);
  const isKnown =
    ['rsa', 'ed25519'].includes(type) ||
    (type === 'ec' && curves.some(({ openssl }) => openssl === details?.namedCurve));
  if (!isKnown) throw SshKeyError.otherType(type === 'ec' ? 'ec with another curve' : type);
  return key.export({ format: 'jwk' });
}

function parsedPem(pem: string): KeyObject {
  try {
    return createPrivateKey(pem);
  } catch {
    throw new SshKeyError('is damaged: its file is not complete');
  }
}

const signAsync = promisify(sign) as (
  algorithm: string | null,
  data: Buffer,
  key: KeyObject | { key: KeyObject; dsaEncoding: 'ieee-p1363' },
) => Promise<Buffer>;

function ed25519Key(jwk: JsonWebKey): SshKey {
  const name = 'ssh-ed25519';
  const key = keyOfJwk(jwk);
  // The public part of the file may be that of another key.
  const { x } = key.export({ format: 'jwk' });
  if (x !== jwk.x) throw new Error('The public part is that of another key');
  return {
    publicKey: wireStrings(name, bytesOf(x)),
    sign: async data => wireStrings(name, await signAsync(null, data, key)),
  };
}

const curves = [
  { jwk: 'P-256', openssl: 'prime256v1', ssh: 'nistp256', hash: 'sha256' },
  { jwk: 'P-384', openssl: 'secp384r1', ssh: 'nistp384', hash: 'sha384' },
  { jwk: 'P-521', openssl: 'secp521r1', ssh: 'nistp521', hash: 'sha512' },
] as const;

function ecdsaKey(jwk: JsonWebKey): SshKey {
  const curve = curves.find(one => one.jwk === jwk.crv);
  if (!curve) throw SshKeyError.otherType(`ec with the curve ${jwk.crv}`);
  const name = `ecdsa-sha2-${curve.ssh}`;
  const key = keyOfJwk(jwk);
  const point = Buffer.concat([Buffer.from([4]), bytesOf(jwk.x), bytesOf(jwk.y)]);
  return {
    publicKey: wireStrings(name, curve.ssh, point),
    async sign(data) {
      const both = await signAsync(curve.hash, data, { key, dsaEncoding: 'ieee-p1363' });
      const [r, s] = [both.subarray(0, both.length / 2), both.subarray(both.length / 2)];
      return wireStrings(name, wireStrings(wireNumber(r), wireNumber(s)));
    },
  };
}

// The old algorithm, without a flag, has SHA-1: OpenSSH has not accepted it by default since 8.8.
const rsaAlgorithms = [
  { flag: 2, name: 'rsa-sha2-256', hash: 'sha256' },
  { flag: 4, name: 'rsa-sha2-512', hash: 'sha512' },
] as const;

function rsaKey(jwk: JsonWebKey): SshKey {
  const key = keyOfJwk(checkedRsa(jwk));
  return {
    publicKey: wireStrings('ssh-rsa', wireNumber(bytesOf(jwk.e)), wireNumber(bytesOf(jwk.n))),
    async sign(data, flags) {
      const algorithm = rsaAlgorithms.find(({ flag }) => flags & flag);
      if (!algorithm) return undefined;
      return wireStrings(algorithm.name, await signAsync(algorithm.hash, data, key));
    },
  };
}

/**
 * Returns the key with exponents that are computed here. With numbers that do not belong together, a signature would be
 * wrong, or take longer than one by the largest key.
 */
function checkedRsa(jwk: JsonWebKey): JsonWebKey {
  const bits = numberOf(jwk.n).toString(2).length;
  checkBits(bits);
  if (bytesOf(jwk.e).length > 8) throw new SshKeyError('has an exponent of more than 64 bits');
  const longest = bytesOf(jwk.n).length;
  const all = [jwk.d, jwk.p, jwk.q, jwk.qi];
  const isShort = all.every(part => bytesOf(part).length <= longest);
  const [e, d, p, q, qi] = [jwk.e, ...(isShort ? all : [])].map(numberOf);
  if (!e || !d || !p || !q || !qi || p * q !== numberOf(jwk.n)) throw new Error('not a key');
  const [dp, dq] = [d % (p - 1n), d % (q - 1n)];
  const isWhole = (e * dp) % (p - 1n) === 1n && (e * dq) % (q - 1n) === 1n && (qi * q) % p === 1n;
  if (!isWhole) throw new Error('not a key');
  return { ...jwk, dp: textOf(dp), dq: textOf(dq) };
}

function checkBits(bits: number): void {
  if (bits >= rsaBits.least && bits <= rsaBits.most) return;
  throw new SshKeyError(
    `is an RSA key of ${bits} bits: expected ${rsaBits.least} to ${rsaBits.most} bits`,
  );
}

function keyOfJwk(jwk: JsonWebKey): KeyObject {
  return createPrivateKey({ key: jwk, format: 'jwk' });
}

function bytesOf(part: string | undefined): Buffer {
  return Buffer.from(part ?? '', 'base64url');
}

function numberOf(part: string | undefined): bigint {
  return BigInt(`0x0${bytesOf(part).toString('hex')}`);
}

function textOf(value: bigint): string {
  const hex = value.toString(16);
  return Buffer.from(hex.padStart(hex.length + (hex.length % 2), '0'), 'hex').toString('base64url');
}

const openSshMagic = Buffer.from('openssh-key-v1\0');

/**
 * Returns the first key in a file that ssh-keygen wrote; undefined for another format. Throws {@link SshKeyError} for
 * an encrypted or damaged key. Source: PROTOCOL.key of OpenSSH.
 */
function openSshKeyIn(text: string): JsonWebKey | undefined {
  const frame = /^-----BEGIN OPENSSH PRIVATE KEY-----([\sA-Za-z0-9+/=]*)-----END OPENSSH/;
  if (!text.startsWith('-----BEGIN OPENSSH PRIVATE KEY-----')) return undefined;
  const bytes = Buffer.from(frame.exec(text)?.[1] ?? '', 'base64');
  try {
    return readOpenSshFile(bytes);
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    throw new SshKeyError('is damaged: its file is not complete');
  }
}

function readOpenSshFile(bytes: Buffer): JsonWebKey {
  if (!bytes.subarray(0, openSshMagic.length).equals(openSshMagic)) throw new RangeError('no key');
  const file = new WireReader(bytes.subarray(openSshMagic.length));
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
  return readOpenSshKey(keys.text(), keys);
}

/** Source: RFC 8709 and RFC 5656 for the public parts, draft-miller-ssh-agent, section 3.2, for the private parts. */
function readOpenSshKey(type: string, keys: WireReader): JsonWebKey {
  if (type === 'ssh-ed25519') {
    const x = jwkText(keys.string());
    return { kty: 'OKP', crv: 'Ed25519', x, d: jwkText(keys.string().subarray(0, 32)) };
  }
  const [, bits] = /^ecdsa-sha2-nistp(256|384|521)$/.exec(type) ?? [];
  if (bits !== undefined) return readOpenSshEcdsa(`P-${bits}`, Math.ceil(Number(bits) / 8), keys);
  if (type === 'ssh-rsa') {
    const next = () => jwkText(keys.number());
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

function readOpenSshEcdsa(crv: string, size: number, keys: WireReader): JsonWebKey {
  // The curve, which the type names too.
  keys.string();
  const point = keys.string();
  const secret = keys.number();
  if (point.length !== 1 + 2 * size || secret.length > size) throw new RangeError('no key');
  const d = Buffer.concat([Buffer.alloc(size - secret.length), secret]);
  const [x, y] = [point.subarray(1, 1 + size), point.subarray(1 + size)];
  return { kty: 'EC', crv, x: jwkText(x), y: jwkText(y), d: jwkText(d) };
}

function jwkText(bytes: Buffer): string {
  return bytes.toString('base64url');
}

/** The content of a file is not a private key that an agent can use. The message follows the name of the file. */
export class SshKeyError extends Error {
  static encrypted(): SshKeyError {
    return new SshKeyError(
      'is encrypted: specify a key without a passphrase, such as a deploy key that can only read. To remove the passphrase from a copy, run ssh-keygen -p -f COPY',
    );
  }

  static otherType(type: string): SshKeyError {
    return new SshKeyError(`has the type ${type}: expected Ed25519, ECDSA or RSA`);
  }
}

/**
 * Reads values of SSH's data types one after the other. Each method throws a `RangeError` if the bytes end too early.
 * Source: RFC 4251, section 5.
 */
export class WireReader {
  #rest: Buffer;

  constructor(bytes: Buffer) {
    this.#rest = bytes;
  }

  /** The bytes that were not read yet. */
  get rest(): Buffer {
    return this.#rest;
  }

  uint32(): number {
    return this.#take(4).readUInt32BE();
  }

  string(): Buffer {
    return this.#take(this.uint32());
  }

  text(): string {
    return this.string().toString('latin1');
  }

  /** Returns the bytes of a positive number, without leading zeros. */
  number(): Buffer {
    return withoutZeros(this.string());
  }

  #take(length: number): Buffer {
    if (length > this.#rest.length) throw new RangeError('The bytes end within a value');
    const taken = this.#rest.subarray(0, length);
    this.#rest = this.#rest.subarray(length);
    return taken;
  }
}

export function wireUint32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value);
  return bytes;
}

/** Returns the values one after the other, each with its length. Source: the same. */
export function wireStrings(...values: readonly (string | Uint8Array)[]): Buffer {
  return Buffer.concat(
    values.flatMap(value => {
      const bytes = Buffer.from(value as Uint8Array);
      return [wireUint32(bytes.length), bytes];
    }),
  );
}

/** Returns a positive number in the form for {@link wireStrings}: a first bit of 1 would make it negative. */
function wireNumber(bytes: Buffer): Buffer {
  const digits = withoutZeros(bytes);
  return (digits[0] ?? 0) & 0x80 ? Buffer.concat([Buffer.alloc(1), digits]) : digits;
}

function withoutZeros(bytes: Buffer): Buffer {
  const first = bytes.findIndex(byte => byte !== 0);
  return first < 0 ? Buffer.alloc(0) : bytes.subarray(first);
}
