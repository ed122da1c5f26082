import { type Digest, parseDigest, splitDigest } from '../../oci/digest.ts';
import type { Bucket, ListedObject } from './bucket/bucket.ts';

/** Returns the key of content below the prefix. */
export function keyOf(digest: Digest): string {
  const { algorithm, hex } = splitDigest(digest);
  return `blobs/${algorithm}/${hex}`;
}

/** Returns the digest in a key; undefined for a key of something else. */
export function digestOfKey(key: string): Digest | undefined {
  const [, algorithm, hex] = /^blobs\/(sha256|sha512)\/([0-9a-f]+)$/.exec(key) ?? [];
  if (!algorithm) return undefined;
  try {
    return parseDigest(`${algorithm}:${hex}`);
  } catch {
    return undefined;
  }
}

/** Lists all content from a position (0 to 1) of each algorithm on, and then what is before it. */
export async function* listFrom(bucket: Bucket, begin: number): AsyncIterable<ListedObject> {
  for (const algorithm of ['sha256', 'sha512']) {
    const below = `blobs/${algorithm}/`;
    const first =
      below +
      Math.floor(begin * 0xffff)
        .toString(16)
        .padStart(4, '0');
    if (begin === 0) {
      yield* bucket.list(below);
      continue;
    }
    yield* bucket.list(below, first);
    for await (const object of bucket.list(below)) {
      if (object.key > first) break;
      yield object;
    }
  }
}
