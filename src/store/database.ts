import { mkdirSync } from 'node:fs';
import { dirname } from 'node:path';
import Database from 'better-sqlite3';
import { Fault } from '../fault.ts';
import { migrations } from './migrations.ts';

export type { Database } from 'better-sqlite3';

/**
 * Opens, and creates where absent, the SQLite file and brings its schema up to date. A directory that is
 * made for it is for its owner alone, whether a server or a command comes first.
 * Write-ahead logging: an answered write survives the end of the process at any moment.
 * Throws a {@link Fault} when the file was written by a newer version.
 */
export function openDatabase(path: string): Database.Database {
  if (path !== ':memory:') mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  const database = new Database(path);
  database.pragma('journal_mode = WAL');
  database.pragma('synchronous = NORMAL');
  database.pragma('busy_timeout = 5000');
  migrate(database);
  return database;
}

function migrate(database: Database.Database): void {
  const current = Number(database.pragma('user_version', { simple: true }));
  if (current > migrations.length) {
    database.close();
    throw new Fault(
      'internal',
      `The database has schema ${current}, this version knows ${migrations.length}: start the newer version that wrote it`,
    );
  }
  for (const [position, sql] of migrations.entries()) {
    if (position < current) continue;
    const step = database.transaction(() => {
      // The server and a command may begin at once: who comes second finds the step taken.
      if (Number(database.pragma('user_version', { simple: true })) > position) return;
      database.exec(sql);
      database.pragma(`user_version = ${position + 1}`);
    });
    step.immediate();
  }
}
