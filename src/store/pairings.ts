import type { Database } from './database.ts';

/** A key pair that a platform encrypts secrets with. */
export interface PairingRow {
  readonly id: string;
  /** DER of the SubjectPublicKeyInfo, base64. */
  readonly publicKey: string;
  readonly sealedPrivateKey: string;
  /** ms since the epoch */
  readonly createdAt: number;
}

export interface PairingStore {
  insert(service: string, endpoint: string, row: PairingRow): void;
  /** The youngest of a service at an endpoint; of any service there without one. */
  youngest(endpoint: string, service?: string): PairingRow | undefined;
  find(id: string): PairingRow | undefined;
  /** Removes those from before the moment; returns how many. */
  purge(createdBefore: number): number;
}

const columns =
  'id, public_key AS publicKey, sealed_private_key AS sealedPrivateKey, created_at AS createdAt';

export function createPairingStore(database: Database): PairingStore {
  const insert = database.prepare(
    'INSERT INTO platform_pairings (id, service, endpoint, public_key, sealed_private_key, created_at) VALUES (?, ?, ?, ?, ?, ?)',
  );
  const youngest = database.prepare(
    `SELECT ${columns} FROM platform_pairings
     WHERE endpoint = ? AND service = coalesce(?, service) ORDER BY created_at DESC, id LIMIT 1`,
  );
  const find = database.prepare(`SELECT ${columns} FROM platform_pairings WHERE id = ?`);
  const purge = database.prepare('DELETE FROM platform_pairings WHERE created_at < ?');
  return {
    insert: (service, endpoint, { id, publicKey, sealedPrivateKey, createdAt }) =>
      void insert.run(id, service, endpoint, publicKey, sealedPrivateKey, createdAt),
    youngest: (endpoint, service) =>
      youngest.get(endpoint, service ?? null) as PairingRow | undefined,
    find: id => find.get(id) as PairingRow | undefined,
    purge: before => purge.run(before).changes,
  };
}
