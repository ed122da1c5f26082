import { randomInt } from 'node:crypto';

// Nobody outside can choose names whose hashes are equal.
const [key0, key1] = [randomInt(2 ** 32) | 0, randomInt(2 ** 32) | 0];

/**
 * Returns 32 bits for the bytes in a range, others in each process.
 * Source: Aumasson and Bernstein, SipHash; its 32-bit variant HalfSipHash with one round for each word and three at the end.
 */
export function keyedHash(bytes: Uint8Array, start: number, end: number): number {
  let v0 = key0;
  let v1 = key1;
  let v2 = 0x6c796765 ^ key0;
  let v3 = 0x74656462 ^ key1;
  const whole = end - ((end - start) & 3);
  const rounds = ((end - start) >> 2) + 4;
  for (let round = 0, at = start; round < rounds; round += 1, at += 4) {
    let word = 0;
    if (at < whole) word = wordAt(bytes, at);
    else if (at === whole) word = lastWord(bytes, at, end) | ((end - start) << 24);
    else if (at === whole + 4) v2 ^= 0xff;
    v3 ^= word;
    v0 = (v0 + v1) | 0;
    v1 = ((v1 << 5) | (v1 >>> 27)) ^ v0;
    v0 = (v0 << 16) | (v0 >>> 16);
    v2 = (v2 + v3) | 0;
    v3 = ((v3 << 8) | (v3 >>> 24)) ^ v2;
    v0 = (v0 + v3) | 0;
    v3 = ((v3 << 7) | (v3 >>> 25)) ^ v0;
    v2 = (v2 + v1) | 0;
    v1 = ((v1 << 13) | (v1 >>> 19)) ^ v2;
    v2 = (v2 << 16) | (v2 >>> 16);
    v0 ^= word;
  }
  return (v1 ^ v3) >>> 0;
}

function wordAt(bytes: Uint8Array, at: number): number {
  return (
    (bytes[at] as number) |
    ((bytes[at + 1] as number) << 8) |
    ((bytes[at + 2] as number) << 16) |
    ((bytes[at + 3] as number) << 24)
  );
}

function lastWord(bytes: Uint8Array, from: number, end: number): number {
  let word = 0;
  for (let at = from; at < end; at += 1) word |= (bytes[at] as number) << ((at - from) * 8);
  return word;
}
