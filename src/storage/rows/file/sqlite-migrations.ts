import type Sqlite from 'better-sqlite3';
import { stepsAfter, unreleasedSchema } from '../migrations.ts';
import { applicationId, sqliteMigrations } from './sqlite-schema.ts';

/** Throws a `Fault` for the file of a development version before the first release. Changes nothing. */
export function requireReleased(database: Sqlite.Database): void {
  if (versionOf(database) === 0) return;
  if (database.pragma('application_id', { simple: true }) === applicationId) return;
  throw unreleasedSchema(`The database ${database.name}`, 'set SLUICE_DATA to an empty directory');
}

/**
 * Brings the schema up to date, each step in one transaction.
 *
 * @throws a `Fault` when a newer version wrote the file
 */
export function migrateSqlite(
  database: Sqlite.Database,
  steps: readonly string[] = sqliteMigrations,
): void {
  const current = versionOf(database);
  for (const [at, sql] of stepsAfter(current, steps).entries()) {
    const version = current + at + 1;
    const step = database.transaction(() => {
      // The server and a command may start at once: the second one finds the step done.
      if (versionOf(database) >= version) return;
      database.exec(sql);
      database.pragma(`user_version = ${version}`);
    });
    step.immediate();
  }
  // When another process did the steps, SQLite may still know the old schema. The read of a table makes it look again;
  // the preparation of a statement with ON CONFLICT does not, and fails.
  database.prepare('SELECT 1 FROM sqlite_schema LIMIT 1').get();
}

function versionOf(database: Sqlite.Database): number {
  return Number(database.pragma('user_version', { simple: true }));
}
