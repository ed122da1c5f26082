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
