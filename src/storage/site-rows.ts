import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { Fault } from '../foundation/fault.ts';
import { hasContent } from './directory/index.ts';
import type { ServerUse } from './rows/file/index.ts';
import { openPostgresRows, openRows, type Rows } from './rows/index.ts';
import { requireDatabase, requireRestored } from './whole-data.ts';

/** Where the rows of a site are. */
export interface RowsPlace {
  /** The data directory. */
  readonly data: string;
  /** `sqlite`, or the address of a PostgreSQL database. */
  readonly database: string;
}

/** True when rows are in a file of the data directory. */
export function isSqlite({ database }: Pick<RowsPlace, 'database'>): boolean {
  return database === 'sqlite';
}

/**
 * Opens the rows of a site. Throws a {@link Fault} when the database cannot be reached, or is not that of the data
 * directory.
 *
 * @param server for the server; absent for a command
 */
export async function openSiteRows(place: RowsPlace, server?: ServerUse): Promise<Rows> {
  const { data, database } = place;
  if (isSqlite(place)) {
    await requireDatabase(data);
    return openRows(join(data, 'sluice.db'), server);
  }
  requireRestored(data);
  if (existsSync(join(data, 'sluice.db'))) {
    throw new Fault(
      'internal',
      `The rows of ${data} are in its sluice.db: move them with 'sluice migrate --from sqlite:${data} --to postgres://...', or set SLUICE_DATABASE to sqlite`,
      { phase: 'store' },
    );
  }
  const { settleFirst, onLock, lock } = server ?? {};
  const rows = await openPostgresRows(database, {
    isServer: server !== undefined,
    ...(settleFirst ? { settleFirst } : {}),
    ...(onLock ? { onLock } : {}),
    ...(lock ? { lock } : {}),
  });
  try {
    await requireOwnContent(data, rows);
    return rows;
  } catch (error) {
    await rows.end();
    throw error;
  }
}

async function requireOwnContent(data: string, { identity }: Rows): Promise<void> {
  if ((await identity.id()) !== undefined || !(await hasContent(join(data, 'content')))) return;
  throw new Fault(
    'internal',
    `The database is empty, but ${data}/content holds content, which an empty server would remove: name the database of this content with SLUICE_DATABASE, or move ${data}/content away to start empty`,
    { phase: 'store' },
  );
}
