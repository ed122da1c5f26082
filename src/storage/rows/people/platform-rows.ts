import type { RowDatabase } from '../row-database.ts';
import { inSmallSteps } from '../small-steps.ts';

/** A key pair. The platform encrypts secrets with its public key. */
export interface PairingRow {
  readonly id: string;
  /** DER of the SubjectPublicKeyInfo, base64. */
  readonly publicKey: string;
  readonly sealedPrivateKey: string;
  /** ms since the epoch */
  readonly createdAt: number;
}

export interface PairingStore {
  insert(service: string, endpoint: string, row: PairingRow): Promise<void>;
  /** Returns the youngest pairing of a service at an endpoint; without a service, the youngest of any service there. */
  youngest(endpoint: string, service?: string): Promise<PairingRow | undefined>;
  find(id: string): Promise<PairingRow | undefined>;
  /** Sets the creation time to the moment. */
  redate(id: string, at: number): Promise<void>;
  /** Removes pairings made before the moment; returns how many. */
  purge(createdBefore: number, signal?: AbortSignal): Promise<number>;
}

const pairingColumns =
  'id, public_key AS publicKey, sealed_private_key AS sealedPrivateKey, created_at AS createdAt';

export function createPairingStore(database: RowDatabase): PairingStore {
  const insert = database.sql(
    'INSERT INTO platform_pairings (id, service, endpoint, public_key, sealed_private_key, created_at) VALUES (?, ?, ?, ?, ?, ?)',
  );
  const youngest = database.sql<PairingRow>(
    `SELECT ${pairingColumns} FROM platform_pairings
     WHERE endpoint = ? AND service = coalesce(?, service) ORDER BY created_at DESC, id LIMIT 1`,
  );
  const redate = database.sql('UPDATE platform_pairings SET created_at = ? WHERE id = ?');
  const find = database.sql<PairingRow>(
    `SELECT ${pairingColumns} FROM platform_pairings WHERE id = ?`,
  );
  const purge = database.sql(
    `DELETE FROM platform_pairings WHERE id IN
     (SELECT id FROM platform_pairings WHERE created_at < ? LIMIT ?)`,
  );
  return {
    insert: (service, endpoint, { id, publicKey, sealedPrivateKey, createdAt }) =>
      database.write(() =>
        insert.run(id, service, endpoint, publicKey, sealedPrivateKey, createdAt),
      ),
    youngest: (endpoint, service) => database.read(youngest.get(endpoint, service ?? null)),
    find: id => database.read(find.get(id)),
    redate: (id, at) => database.commit(() => redate.run(at, id)),
    purge: (before, signal) => inSmallSteps(database, rows => purge.changes(before, rows), signal),
  };
}

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
