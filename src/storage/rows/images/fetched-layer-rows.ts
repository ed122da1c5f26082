import { createHash } from 'node:crypto';
import type { RowDatabase } from '../driver/row-database.ts';
import { createNotedChanges } from '../noted-changes.ts';
import { inSmallSteps } from '../small-steps.ts';

/** The digests of layers fetched from URLs, so that each is fetched once. Times are ms since the epoch. */
export interface FetchedLayerStore {
  /** Returns an entry, and counts it as used at the moment, at most once an hour. */
  find(location: string, at: number): Promise<string | undefined>;
  /** Adds an entry. If it cannot be written, the layer is fetched again. */
  put(location: string, body: string, at: number): void;
  /** Removes entries that were used last before the moment, or after `latest`; returns how many. */
  purge(usedBefore: number, latest: number, signal?: AbortSignal): Promise<number>;
}

const touchMs = 3_600_000;

/** Locations are kept as hashes: a URL may hold a signature that gives access. */
export function createFetchedLayerStore(database: RowDatabase): FetchedLayerStore {
  const find = database.sql<{ body: string; usedAt: number }>(
    'SELECT body, used_at AS usedAt FROM fetched_layers WHERE location_hash = ?',
  );
  const put = database.sql(
    `INSERT INTO fetched_layers (location_hash, body, used_at) VALUES (?, ?, ?)
     ON CONFLICT (location_hash) DO UPDATE SET body = excluded.body, used_at = excluded.used_at`,
  );
  const touch = database.sql('UPDATE fetched_layers SET used_at = ? WHERE location_hash = ?');
  const purge = database.sql(
    `DELETE FROM fetched_layers WHERE location_hash IN
     (SELECT location_hash FROM fetched_layers WHERE used_at < ? LIMIT ?)`,
  );
  const purgeLater = database.sql(
    `DELETE FROM fetched_layers WHERE location_hash IN
     (SELECT location_hash FROM fetched_layers WHERE used_at > ? LIMIT ?)`,
  );
  const { note, ended } = createNotedChanges(database);
  const hash = (location: string) => createHash('sha256').update(location).digest();
  return {
    async find(location, at) {
      const found = await database.read(find.get(hash(location)));
      if (found && Math.abs(at - found.usedAt) > touchMs) {
        note(() => touch.run(at, hash(location)));
      }
      return found?.body;
    },
    put: (location, body, at) => note(() => put.run(hash(location), body, at)),
    async purge(usedBefore, latest, signal) {
      await ended();
      const before = await inSmallSteps(database, rows => purge.changes(usedBefore, rows), signal);
      return (
        before + (await inSmallSteps(database, rows => purgeLater.changes(latest, rows), signal))
      );
    },
  };
}
