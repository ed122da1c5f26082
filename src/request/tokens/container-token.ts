import { hash, randomBytes } from 'node:crypto';

/** Identifies a container request; anyone who has it may pull. It is never logged, and never stored in plain form. */
export type ContainerToken = string & { readonly __brand: 'ContainerToken' };

// Base 32 (RFC 4648) in lower case: valid in a repository name, and 20 bytes give 32 characters.
const alphabet = 'abcdefghijklmnopqrstuvwxyz234567';
const randomByteCount = 20;
/** Characters of a token. */
export const tokenLength = 32;
const pattern = /^[a-z2-7]{32}$/;

/** Returns a new token of 160 random bits. */
export function createToken(): ContainerToken {
  let text = '';
  let buffer = 0;
  let bits = 0;
  for (const byte of randomBytes(randomByteCount)) {
    buffer = ((buffer << 8) | byte) & 0xffff;
    bits += 8;
    while (bits >= 5) {
      bits -= 5;
      text += alphabet[(buffer >> bits) & 31];
    }
  }
  return text as ContainerToken;
}

export function isToken(text: string): text is ContainerToken {
  return pattern.test(text);
}

/** Returns the hash under which the token is stored. */
export function hashToken(token: ContainerToken): Buffer {
  return hash('sha256', token, 'buffer');
}

/** Identifies a name to those who may end it, without giving access: the hash of its token in hex. */
export type NameId = string & { readonly __brand: 'NameId' };

/** Returns the id of the name whose token has this hash (SHA-256). */
export function nameIdOf(tokenHash: Buffer): NameId {
  return tokenHash.toString('hex') as NameId;
}

/** Returns the id of the name of a token. It costs a third of {@link hashToken}, and each pull needs it. */
export function nameIdOfToken(token: ContainerToken): NameId {
  return hash('sha256', token, 'hex') as NameId;
}

export function isNameId(text: string): text is NameId {
  return /^[0-9a-f]{64}$/.test(text);
}

/** Returns a label that identifies the request in logs without giving access. */
export function tokenLabel(token: ContainerToken): string {
  return nameIdOfToken(token).slice(0, 12);
}
