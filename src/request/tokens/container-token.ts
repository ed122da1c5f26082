import { createHash, randomBytes } from 'node:crypto';

/** Names a container request; who has it may pull. It is never logged and never stored as it is. */
export type ContainerToken = string & { readonly __brand: 'ContainerToken' };

// Base 32 (RFC 4648) in lower case: fits a repository name, and 20 bytes give 32 characters.
const alphabet = 'abcdefghijklmnopqrstuvwxyz234567';
const randomByteCount = 20;
const pattern = /^[a-z2-7]{32}$/;

/** A new token of 160 random bits. */
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

/** What the token is stored under. */
export function hashToken(token: ContainerToken): Buffer {
  return createHash('sha256').update(token).digest();
}

/** Tells requests apart in logs without giving access. */
export function tokenLabel(token: ContainerToken): string {
  return hashToken(token).toString('hex').slice(0, 12);
}
