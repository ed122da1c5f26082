import type { Digest } from '../../../oci/digest.ts';
import type { RowDatabase } from '../driver/row-database.ts';
import { createNotedChanges } from '../noted-changes.ts';
import { inSmallSteps } from '../small-steps.ts';

/** Records which registries have sent a layer, and what it unpacks to. Times are ms since the epoch. */
export interface VerifiedLayerStore {
  /** Returns the digest of the unpacked layer, and counts the row as used at the moment, at most once a day. */
  find(digest: Digest, registry: string, at: number): Promise<Digest | undefined>;
  /** Adds a row. */
  put(digest: Digest, registry: string, diffId: Digest, at: number): Promise<void>;
  /** Removes rows that were used last before the moment, or after `latest`; returns how many. */
  purge(usedBefore: number, latest: number, signal?: AbortSignal): Promise<number>;
}

const touchMs = 24 * 3_600_000;

export function createVerifiedLayerStore(database: RowDatabase): VerifiedLayerStore {
  const find = database.sql<{ diffId: Digest; usedAt: number }>(
    `SELECT diff_id AS diffId, used_at AS usedAt FROM verified_layers
     WHERE digest = ? AND registry = ?`,
  );
  const put = database.sql(
    `INSERT INTO verified_layers (digest, registry, diff_id, used_at) VALUES (?, ?, ?, ?)
     ON CONFLICT (digest, registry) DO UPDATE SET diff_id = excluded.diff_id, used_at = excluded.used_at`,
  );
  const touch = database.sql(
    'UPDATE verified_layers SET used_at = ? WHERE digest = ? AND registry = ?',
  );
  const purge = database.sql(
    `DELETE FROM verified_layers WHERE (digest, registry) IN
     (SELECT digest, registry FROM verified_layers WHERE used_at < ? LIMIT ?)`,
  );
  const purgeLater = database.sql(
    `DELETE FROM verified_layers WHERE (digest, registry) IN
     (SELECT digest, registry FROM verified_layers WHERE used_at > ? LIMIT ?)`,
  );
  const { note, ended } = createNotedChanges(database);
  return {
    async find(digest, registry, at) {
      const found = await database.read(find.get(digest, registry));
      if (found && Math.abs(at - found.usedAt) > touchMs) {
        note(() => touch.run(at, digest, registry));
      }
      return found?.diffId;
    },
    put: (digest, registry, diffId, at) =>
      database.commit(() => put.run(digest, registry, diffId, at)),
    async purge(usedBefore, latest, signal) {
      await ended();
      const before = await inSmallSteps(database, rows => purge.changes(usedBefore, rows), signal);
      return (
        before + (await inSmallSteps(database, rows => purgeLater.changes(latest, rows), signal))
      );
    },
  };
}
