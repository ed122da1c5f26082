import type { Database } from '../database.ts';
import { inSmallSteps } from '../small-steps.ts';

type Key = string | number | Uint8Array;

/** A row with a secret, by the table that it is in. */
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

/** All secrets in the database. */
export interface SealedRowStore {
  /**
   * Hands every secret over, and keeps what is returned in its place; undefined leaves it. A few rows at a time
   * are changed in one transaction.
   */
  replace(change: (row: SealedRow, sealed: string) => string | undefined): Promise<void>;
  /**
   * Returns how many live container requests hold a secret that does not begin with the prefix, and when the last
   * of them ends (ms since the epoch). Looks through all live requests.
   */
  requestsOfOthers(prefix: string, now: number): { count: number; lastEnd: number | null };
}

interface Table {
  readonly page: string;
  readonly update: string;
  readonly rowOf: (found: Found) => SealedRow;
}

const tables: readonly Table[] = [
  {
    page: 'SELECT id AS key, sealed, user, workspace FROM credentials WHERE id > ? ORDER BY id LIMIT ?',
    update: 'UPDATE credentials SET sealed = ? WHERE id = ?',
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
    update: 'UPDATE platform_token_pairs SET sealed = ? WHERE grant_hash = ?',
    rowOf: ({ key }) => ({
      table: 'tokens',
      hash: Buffer.from(key as Uint8Array).toString('base64url'),
    }),
  },
  {
    page: 'SELECT id AS key, sealed_private_key AS sealed FROM platform_pairings WHERE id > ? ORDER BY id LIMIT ?',
    update: 'UPDATE platform_pairings SET sealed_private_key = ? WHERE id = ?',
    rowOf: ({ key }) => ({ table: 'pairings', id: String(key) }),
  },
  {
    page: `SELECT rowid AS key, sealed_grant AS sealed FROM builds
      WHERE finished_at IS NULL AND sealed_grant IS NOT NULL AND rowid > ? ORDER BY rowid LIMIT ?`,
    update: 'UPDATE builds SET sealed_grant = ? WHERE rowid = ?',
    rowOf: () => ({ table: 'builds' }),
  },
];

// Below every key of the table.
const firstKeys: Readonly<Record<string, Key>> = { tokens: Buffer.alloc(0), builds: 0 };

/** Opens them for a command, while no server runs: some of its statements look through whole tables. */
export function openSealedRows(database: Database): SealedRowStore {
  return {
    async replace(change) {
      for (const { page, update, rowOf } of tables) {
        const [read, write] = [database.prepare(page), database.prepare(update)];
        let last: Key = firstKeys[rowOf({ key: '', sealed: '' }).table] ?? '';
        await inSmallSteps(database, rows => {
          const found = read.all(last, rows) as Found[];
          for (const row of found) {
            const sealed = change(rowOf(row), row.sealed);
            if (sealed !== undefined) write.run(sealed, row.key);
          }
          last = found.at(-1)?.key ?? last;
          return found.length;
        });
      }
    },

    requestsOfOthers(prefix, now) {
      const found = database
        .prepare(
          `SELECT COUNT(*) AS count, MAX(expires_at) AS lastEnd FROM requests
           WHERE expires_at > @now AND revoked_at IS NULL AND body LIKE '%"grant":"%'
             AND EXISTS (SELECT 1 FROM json_tree(body) WHERE key = 'grant' AND type = 'text'
               AND substr(value, 1, length(@prefix)) <> @prefix)`,
        )
        .get({ prefix, now });
      return found as { count: number; lastEnd: number | null };
    },
  };
}
