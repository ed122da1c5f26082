import { LRUCache } from 'lru-cache';

/**
 * Returns a cache with a maximum number of entries, which drops the least recently used ones.
 * The limit is given as a size of 1 for each entry, so that memory grows with the entries: for its option `max`
 * lru-cache allocates 24 bytes at once for every possible entry.
 *
 * @param options of `LRUCache`: how long an entry is kept, in ms, and by which clock
 */
export function boundedCache<K extends {}, V extends {}>(
  entries: number,
  options?: Pick<LRUCache.OptionsBase<K, V, unknown>, 'ttl' | 'ttlResolution' | 'perf'>,
): LRUCache<K, V> {
  return new LRUCache<K, V>({ ...options, maxSize: entries, sizeCalculation: () => 1 });
}

// Overhead of an entry beyond its content, in bytes.
const entryBytes = 300;

/**
 * Returns a cache with a maximum number of bytes, which drops the least recently used entries. It suits entries whose
 * size depends on the data of a caller or a registry. It does not keep an entry that is larger than the whole cache.
 *
 * @param sizeOf bytes of an entry, key included; measured when it is set
 */
export function cacheOfBytes<K extends {}, V extends {}>(
  bytes: number,
  sizeOf: (value: V, key: K) => number,
  options?: Pick<LRUCache.OptionsBase<K, V, unknown>, 'ttl'>,
): LRUCache<K, V> {
  return new LRUCache<K, V>({
    ...options,
    maxSize: bytes,
    sizeCalculation: (value, key) => entryBytes + sizeOf(value, key),
  });
}
