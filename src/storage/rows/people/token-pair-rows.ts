import type { RowDatabase } from '../driver/row-database.ts';
import { inSmallSteps } from '../small-steps.ts';

/** Renewed tokens of platforms, sealed, by the hash of their grant. */
export interface TokenPairStore {
  find(grantHash: string): Promise<string | undefined>;
  /** @param at ms since the epoch */
  put(grantHash: string, sealed: string, at: number): Promise<void>;
  remove(grantHash: string): Promise<void>;
  /** Removes tokens that were renewed last before the moment; returns how many. */
  purge(renewedBefore: number, signal?: AbortSignal): Promise<number>;
}

export function createTokenPairStore(database: RowDatabase): TokenPairStore {
  const find = database
    .sql('SELECT sealed FROM platform_token_pairs WHERE grant_hash = ?')
    .pluck<string>();
  const put = database.sql(
    `INSERT INTO platform_token_pairs (grant_hash, sealed, renewed_at) VALUES (?, ?, ?)
     ON CONFLICT (grant_hash) DO UPDATE SET sealed = excluded.sealed, renewed_at = excluded.renewed_at`,
  );
  const remove = database.sql('DELETE FROM platform_token_pairs WHERE grant_hash = ?');
  const purge = database.sql(
    `DELETE FROM platform_token_pairs WHERE grant_hash IN
     (SELECT grant_hash FROM platform_token_pairs WHERE renewed_at < ? LIMIT ?)`,
  );
  const key = (hash: string) => Buffer.from(hash, 'base64url');
  return {
    find: hash => database.read(find.get(key(hash))),
    put: (hash, sealed, at) =>
      database.write(() => put.run(key(hash), sealed, at), {
        patienceMs: Number.POSITIVE_INFINITY,
      }),
    remove: hash => database.write(() => remove.run(key(hash))),
    purge: (before, signal) => inSmallSteps(database, rows => purge.changes(before, rows), signal),
  };
}
