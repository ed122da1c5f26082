import type { RowDatabase, Statement } from '../driver/row-database.ts';

type Key = string | number | Uint8Array;

/** A row with a secret, by its table. */
export type SealedRow =
  | { readonly table: 'credentials'; readonly id: string; readonly owner: Owner }
  | { readonly table: 'tokens'; readonly hash: string }
  | { readonly table: 'pairings'; readonly id: string }
  | { readonly table: 'builds' };

interface Owner {
  readonly kind: 'user' | 'workspace';
  readonly id: number;
}

interface Found {
  readonly key: Key;
  readonly sealed: string;
  readonly user?: number | null;
  readonly workspace?: number | null;
}

/** A secret and its place. */
export interface Sealed {
  readonly row: SealedRow;
  readonly sealed: string;
  /** The place after which the next page begins. */
  readonly place: SealedPlace;
}

/** A place in the order of all secrets. */
export interface SealedPlace {
  readonly table: number;
  readonly key: Key;
}

/** A secret that replaces another one. */
export interface Resealed extends Pick<Sealed, 'place' | 'sealed'> {
  readonly resealed: string;
}

/** All secrets in the database. Commands use it while no server runs: some statements search whole tables. */
export interface SealedRowStore {
  /** Returns up to so many secrets after a place; an empty list at the end. */
  after(place: SealedPlace | undefined, limit: number): Promise<Sealed[]>;
  /** Replaces secrets in one transaction, except those that have changed since they were read. */
  replace(secrets: readonly Resealed[]): Promise<void>;
  /**
   * Returns how many live container requests hold a secret that does not begin with the prefix, and when the last of
   * them ends (ms since the epoch). Searches all live requests.
   */
  requestsOfOthers(prefix: string, now: number): Promise<RequestsOfOthers>;
}

export interface RequestsOfOthers {
  readonly count: number;
  readonly lastEnd: number | null;
}

interface Table {
  readonly page: string;
  readonly update: string;
  readonly rowOf: (found: Found) => SealedRow;
}

const tables: readonly Table[] = [
  {
    page: 'SELECT id AS key, sealed, "user", workspace FROM credentials WHERE id > ? ORDER BY id LIMIT ?',
    update: 'UPDATE credentials SET sealed = ? WHERE id = ? AND sealed = ?',
    rowOf: ({ key, user, workspace }) => ({
      table: 'credentials',
      id: String(key),
      owner:
        typeof user === 'number'
          ? { kind: 'user', id: user }
          : { kind: 'workspace', id: Number(workspace) },
    }),
  },
  {
    page: 'SELECT grant_hash AS key, sealed FROM platform_token_pairs WHERE grant_hash > ? ORDER BY grant_hash LIMIT ?',
    update: 'UPDATE platform_token_pairs SET sealed = ? WHERE grant_hash = ? AND sealed = ?',
    rowOf: ({ key }) => ({
      table: 'tokens',
      hash: Buffer.from(key as Uint8Array).toString('base64url'),
    }),
  },
  {
    page: 'SELECT id AS key, sealed_private_key AS sealed FROM platform_pairings WHERE id > ? ORDER BY id LIMIT ?',
    update:
      'UPDATE platform_pairings SET sealed_private_key = ? WHERE id = ? AND sealed_private_key = ?',
    rowOf: ({ key }) => ({ table: 'pairings', id: String(key) }),
  },
  {
    page: `SELECT rowid AS key, sealed_grant AS sealed FROM builds
      WHERE finished_at IS NULL AND sealed_grant IS NOT NULL AND rowid > ? ORDER BY rowid LIMIT ?`,
    update: 'UPDATE builds SET sealed_grant = ? WHERE rowid = ? AND sealed_grant = ?',
    rowOf: () => ({ table: 'builds' }),
  },
];

// Values below every key of each table.
const firstKeys: readonly Key[] = ['', Buffer.alloc(0), '', 0];

export function createSealedRowStore(database: RowDatabase): SealedRowStore {
  const pages = tables.map(({ page }) => database.sql<Found>(page));
  const updates = tables.map(({ update }) => database.sql(update));
  const requestsOfOthers = database.sql<RequestsOfOthers>(
    `SELECT COUNT(*) AS count, MAX(expires_at) AS lastEnd FROM requests
     WHERE expires_at > @now AND revoked_at IS NULL AND body LIKE '%"grant":"%'
       AND EXISTS (SELECT 1 FROM json_tree(body) WHERE key = 'grant' AND type = 'text'
         AND substr(value, 1, length(@prefix)) <> @prefix)`,
  );

  return {
    async after(place, limit) {
      for (let table = place?.table ?? 0; table < tables.length; table += 1) {
        const key = place?.table === table ? place.key : firstKeys[table];
        const found = await database.read(
          (pages[table] as Statement<Found>).all(key as Key, limit),
        );
        if (found.length === 0) continue;
        return found.map(row => ({
          row: (tables[table] as Table).rowOf(row),
          sealed: row.sealed,
          place: { table, key: row.key },
        }));
      }
      return [];
    },

    replace: secrets =>
      database.write(function* () {
        for (const { place, sealed, resealed } of secrets) {
          const update = updates[place.table] as Statement<unknown>;
          yield* update.run(resealed, place.key, sealed);
        }
      }),

    requestsOfOthers: async (prefix, now) =>
      (await database.read(requestsOfOthers.get({ prefix, now }))) ?? { count: 0, lastEnd: null },
  };
}
