import type { RowDatabase } from '../driver/row-database.ts';
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

const columns =
  'id, public_key AS publicKey, sealed_private_key AS sealedPrivateKey, created_at AS createdAt';

export function createPairingStore(database: RowDatabase): PairingStore {
  const insert = database.sql(
    'INSERT INTO platform_pairings (id, service, endpoint, public_key, sealed_private_key, created_at) VALUES (?, ?, ?, ?, ?, ?)',
  );
  const youngest = database.sql<PairingRow>(
    `SELECT ${columns} FROM platform_pairings
     WHERE endpoint = ? AND service = coalesce(?, service) ORDER BY created_at DESC, id LIMIT 1`,
  );
  const redate = database.sql('UPDATE platform_pairings SET created_at = ? WHERE id = ?');
  const find = database.sql<PairingRow>(`SELECT ${columns} FROM platform_pairings WHERE id = ?`);
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
