import { createHash } from 'node:crypto';
import type { Database } from './database.ts';

/** What the layers fetched from URLs turned out to be, so that each is fetched once. */
export interface FetchedLayerStore {
  find(location: string): string | undefined;
  put(location: string, body: string): void;
}

/** Locations are kept as hashes: a URL may hold a signature that gives access. */
export function createFetchedLayerStore(database: Database): FetchedLayerStore {
  const find = database.prepare('SELECT body FROM fetched_layers WHERE location_hash = ?').pluck();
  const put = database.prepare(
    'INSERT OR REPLACE INTO fetched_layers (location_hash, body) VALUES (?, ?)',
  );
  const hash = (location: string) => createHash('sha256').update(location).digest();
  return {
    find: location => find.get(hash(location)) as string | undefined,
    put(location, body) {
      put.run(hash(location), body);
    },
  };
}
