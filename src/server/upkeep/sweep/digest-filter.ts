import { randomBytes } from 'node:crypto';
import { type Digest, splitDigest } from '../../../oci/digest.ts';

/** A set of digests in a fixed amount of memory, however many there are. */
export interface DigestFilter {
  add(digest: Digest): void;
  /**
   * True for every digest that was added, and by chance for a few that were not: one in 3,000 when ten million were
   * added, one in 60 at thirty million. Another filter is wrong about other digests.
   */
  mayHave(digest: Digest): boolean;
}

const filterBytes = 32 * 1024 * 1024;
const probes = 4;
const positions = filterBytes * 8;

/**
 * A Bloom filter. Digests are evenly distributed already, so their own bits, mixed with a secret of this filter, say
 * where to look. Memory is taken from the system as it is written to.
 */
export function createDigestFilter(): DigestFilter {
  const bits = new Uint8Array(filterBytes);
  const secret = randomBytes(4 * probes);
  const secrets = Array.from({ length: probes }, (_, at) => secret.readUInt32LE(4 * at) | 1);
  const positionOf = (hex: string, at: number): number => {
    const word = Number.parseInt(hex.slice(at * 8, at * 8 + 8), 16);
    // A multiplication mixes the lower bits into the upper ones, which are taken.
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
