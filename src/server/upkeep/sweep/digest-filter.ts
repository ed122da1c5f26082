import { randomBytes } from 'node:crypto';
import { type Digest, splitDigest } from '../../../oci/digest.ts';

/** A set of digests in a fixed amount of memory, for any number of digests. */
export interface DigestFilter {
  add(digest: Digest): void;
  /**
   * True for every added digest, and by chance for a few others: one in 3,000 with ten million added digests, one in
   * 60 with thirty million. Each filter is wrong about different digests.
   */
  mayHave(digest: Digest): boolean;
}

const filterBytes = 32 * 1024 * 1024;
const probes = 4;
const positions = filterBytes * 8;

/**
 * Returns a Bloom filter. Digests are evenly distributed already, so their own bits, mixed with a secret of this
 * filter, select the positions. The system provides the memory as it is written to.
 */
export function createDigestFilter(): DigestFilter {
  const bits = new Uint8Array(filterBytes);
  const secret = randomBytes(4 * probes);
  const secrets = Array.from({ length: probes }, (_, at) => secret.readUInt32LE(4 * at) | 1);
  const positionOf = (hex: string, at: number): number => {
    const word = Number.parseInt(hex.slice(at * 8, at * 8 + 8), 16);
    // A multiplication mixes the lower bits into the upper ones, which select the position.
    return Math.floor(((Math.imul(word, secrets[at] ?? 1) >>> 0) / 2 ** 32) * positions);
  };
  return {
    add(digest) {
      const { hex } = splitDigest(digest);
      for (let at = 0; at < probes; at += 1) {
        const position = positionOf(hex, at);
        bits[position >>> 3] = (bits[position >>> 3] ?? 0) | (1 << (position & 7));
      }
    },
    mayHave(digest) {
      const { hex } = splitDigest(digest);
      for (let at = 0; at < probes; at += 1) {
        const position = positionOf(hex, at);
        if (((bits[position >>> 3] ?? 0) & (1 << (position & 7))) === 0) return false;
      }
      return true;
    },
  };
}
