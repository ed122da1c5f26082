import { LRUCache } from 'lru-cache';

/**
 * A cache that holds so many entries and then drops the least recently used.
 *
 * The bound is given as a size of 1 for each, so that memory is taken as entries come: for its option `max`
 * lru-cache sets aside 24 bytes at once for every entry that there may ever be.
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
 * A cache that holds so many bytes and then drops the least recently used: for entries whose size depends on what a
 * caller or a registry sends. It does not keep an entry that is larger than the whole cache.
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
