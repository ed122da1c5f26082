import { randomUUID } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { Fault } from '../foundation/fault.ts';
import { hasContent } from './directory/has-content.ts';
import { syncDirectoriesNow } from './directory/sync-directory.ts';
import { writeOnce } from './directory/write-once.ts';
import type { Database } from './rows/database.ts';

const adoption = "run 'sluice verify --adopt-content'";

/** While it is there, the data directory is not whole. */
export const unfinishedRestore = 'restore.unfinished';

/**
 * Makes sure that the parts of a data directory belong together, before anything is made in the place of one
 * that is missing: rows without their content are broken, content without its rows would be swept away. The
 * database and the content carry the same id. A directory that is new, or whose making was cut short, is whole.
 */

/** Throws a {@link Fault} where there is content without a database. To be called before the database is opened. */
export async function requireDatabase(data: string): Promise<void> {
  if (existsSync(join(data, unfinishedRestore))) {
    throw incomplete(
      `${data} is being restored, or its restore was interrupted: run the same 'sluice restore' again`,
    );
  }
  const path = join(data, 'sluice.db');
  const isThere = (statSync(path, { throwIfNoEntry: false })?.size ?? 0) > 0;
  if (isThere || !(await hasContent(join(data, 'content')))) return;
  throw incomplete(
    `${path} is missing, but ${data}/content holds content, which an empty server would remove: restore sluice.db from a backup, or move ${data}/content away to start empty`,
  );
}

/**
 * Throws a {@link Fault} where the content is missing or belongs to another database. To be called before the
 * content is opened.
 *
 * @param adopt takes the content for that of the database, whatever it is
 */
export async function requireContent(
  data: string,
  database: Database,
  adopt = false,
): Promise<void> {
  const root = join(data, 'content');
  const idOfRows = database.prepare('SELECT id FROM data_directory').pluck().get();
  const idOfContent = readId(root);
  if (idOfRows !== undefined && idOfRows === idOfContent) return;
  if (!adopt) await requireMatch(data, database, idOfRows, idOfContent);
  mkdirSync(root, { recursive: true, mode: 0o700 });
  if (adopt) database.prepare('DELETE FROM data_directory').run();
  const id = adopt || idOfRows === undefined ? randomUUID() : String(idOfRows);
  writeOnce(join(root, 'id'), id);
  syncDirectoriesNow(data, undefined);
  // The file first: rows with an id have had content with it.
  await database.write(() =>
    database
      .prepare(
        'INSERT INTO data_directory (id) SELECT ? WHERE NOT EXISTS (SELECT 1 FROM data_directory)',
      )
      .run(readId(root)),
  );
}

async function requireMatch(
  data: string,
  database: Database,
  idOfRows: unknown,
  idOfContent: string | undefined,
): Promise<void> {
  const isFilled = await hasContent(join(data, 'content'));
  if (idOfRows !== undefined && idOfContent !== undefined) {
    throw incomplete(
      `${data}/content belongs to another database than ${data}/sluice.db: restore both from the same backup. To use them together all the same, ${adoption}`,
    );
  }
  if (idOfContent !== undefined || (isFilled && idOfRows === undefined)) return;
  if (!isFilled && !needsContent(database)) return;
  throw incomplete(
    `${data}/content is missing, or is not what ${data}/sluice.db refers to: mount it, or restore it from a backup. To go on without what is missing, ${adoption}`,
  );
}

/** Throws a {@link Fault} where the key is missing that secrets in the database were encrypted with. */
export function requireSecretsKey(data: string, database: Database): void {
  const path = join(data, 'secrets.key');
  if (existsSync(path) || !hasSecrets(database)) return;
  throw incomplete(
    `${path} is missing, but ${data}/sluice.db holds secrets that were encrypted with it: restore it from a backup. To give those secrets up, put 32 random bytes into it: head -c 32 /dev/urandom > ${path}`,
  );
}

function needsContent(database: Database): boolean {
  return holds(
    database,
    `SELECT 1 FROM hosted_blobs UNION ALL SELECT 1 FROM hosted_manifests
     UNION ALL SELECT 1 FROM requests WHERE expires_at > @now AND revoked_at IS NULL`,
  );
}

function hasSecrets(database: Database): boolean {
  return holds(
    database,
    `SELECT 1 FROM credentials UNION ALL SELECT 1 FROM platform_token_pairs
     UNION ALL SELECT 1 FROM builds WHERE sealed_grant IS NOT NULL AND finished_at IS NULL
     UNION ALL SELECT 1 FROM requests
       WHERE expires_at > @now AND revoked_at IS NULL AND body LIKE '%"grant":"%'`,
  );
}

function holds(database: Database, rows: string): boolean {
  const found = database.prepare(`SELECT EXISTS (${rows})`).pluck();
  return found.get(rows.includes('@now') ? { now: Date.now() } : {}) === 1;
}

function readId(root: string): string | undefined {
  try {
    return readFileSync(join(root, 'id'), 'utf8').trim();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}

function incomplete(message: string): Fault {
  return new Fault('internal', message, { phase: 'store' });
}
