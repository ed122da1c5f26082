import type { Database } from './database.ts';

/** Renewed tokens of platforms, sealed, by the hash of the grant they belong to. */
export interface TokenPairStore {
  find(grantHash: string): string | undefined;
  /** @param at ms since the epoch */
  put(grantHash: string, sealed: string, at: number): void;
  remove(grantHash: string): void;
  /** Removes those that were renewed last before the moment; returns how many. */
  purge(renewedBefore: number): number;
}

export function createTokenPairStore(database: Database): TokenPairStore {
  const find = database
    .prepare('SELECT sealed FROM platform_token_pairs WHERE grant_hash = ?')
    .pluck();
  const put = database.prepare(
    'INSERT OR REPLACE INTO platform_token_pairs (grant_hash, sealed, renewed_at) VALUES (?, ?, ?)',
  );
  const remove = database.prepare('DELETE FROM platform_token_pairs WHERE grant_hash = ?');
  const purge = database.prepare('DELETE FROM platform_token_pairs WHERE renewed_at < ?');
  const key = (hash: string) => Buffer.from(hash, 'base64url');
  return {
    find: hash => find.get(key(hash)) as string | undefined,
    put: (hash, sealed, at) => void put.run(key(hash), sealed, at),
    remove: hash => void remove.run(key(hash)),
    purge: before => purge.run(before).changes,
  };
}
