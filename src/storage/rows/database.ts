import { closeSync, fdatasync, mkdirSync, openSync } from 'node:fs';
import { dirname } from 'node:path';
import { promisify } from 'node:util';
import Sqlite from 'better-sqlite3';
import { SingleFlight } from '../../foundation/single-flight.ts';
import { makePrivateFile, syncDirectoriesNow } from '../directory/index.ts';
import { createCheckpoints } from './file/checkpoints.ts';
import { migrateSqlite, requireReleased } from './file/sqlite-migrations.ts';
import { createWriter, sqliteStatements, type WriterDeps } from './file/writer.ts';
import type { ReadReplicaUse } from './postgres/read-replica.ts';
import type { ServerLock } from './postgres/server-lock.ts';
import type { RowDatabase } from './row-database.ts';

/** The SQLite file. Stores use it as a {@link RowDatabase} only. */
export interface Database extends Sqlite.Database, RowDatabase {
  /** Finishes the writes in progress and closes the database. */
  end(): Promise<void>;
}

/** Additions for a server, whose only thread must not wait for the disk or for a lock. */
export interface ServerUse {
  /** Brings the content that rows refer to to the disk. */
  readonly settleFirst?: () => Promise<void>;
  /** Called when the log cannot be copied into the database file. The log grows until that works. */
  readonly onFailedCopy?: (reason: string) => void;
  /** Called when the lock of the server in PostgreSQL is in doubt, lost, held again, or taken by another server. */
  readonly onLock?: (news: 'silent' | 'lost' | 'held' | 'taken') => void;
  /** That lock, if this server holds it already. */
  readonly lock?: ServerLock;
  /** A replica of PostgreSQL for reads that may be some seconds old. */
  readonly readReplica?: ReadReplicaUse | undefined;
}

const commandPatienceMs = 60_000;

/**
 * Opens the SQLite file, creates it where it is absent, and brings its schema up to date. A directory that it creates
 * is for its owner alone, for a server and a command alike. Write-ahead logging: see
 * docs/adr/0023-acknowledged-is-durable.md for what makes a change durable.
 *
 * @param server for the server; absent for a command
 * @throws a `Fault` when the file was written by a newer version, or by a development version before the first release
 */
export function openDatabase(path: string, server?: ServerUse): Database {
  const isInMemory = path === ':memory:';
  const made = isInMemory ? undefined : mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  if (!isInMemory) makePrivateFile(path);
  const database = new Sqlite(path);
  try {
    requireReleased(database);
    // This must precede the first write, or it has no effect. It allows free pages to be returned to the disk.
    database.pragma('auto_vacuum = INCREMENTAL');
    database.pragma('journal_mode = WAL');
    database.pragma('synchronous = FULL');
    database.pragma(`busy_timeout = ${commandPatienceMs}`);
    migrateSqlite(database);
  } catch (error) {
    database.close();
    throw error;
  }
  if (!isInMemory) syncDirectoriesNow(dirname(path), made);
  return server && !isInMemory ? forServer(database, path, server) : withWriter(database, {});
}

/** The main thread neither flushes the log nor copies it: two other threads do. */
function forServer(
  database: Sqlite.Database,
  path: string,
  { settleFirst = async () => {}, onFailedCopy }: ServerUse,
): Database {
  database.pragma('synchronous = NORMAL');
  database.pragma('wal_autocheckpoint = 0');
  database.pragma('busy_timeout = 0');
  const log = createLogFlush(`${path}-wal`);
  const checkpoints = createCheckpoints(path, onFailedCopy);
  let isDoubtful = false;
  const flush = async (): Promise<void> => {
    try {
      await log.flush();
    } catch (error) {
      isDoubtful = true;
      throw error;
    }
    if (!isDoubtful) return;
    // The system forgets a failed write, and the next flush succeeds without it. Only bytes that were copied into the
    // database file since then are safe.
    await checkpoints.complete();
    isDoubtful = false;
  };
  const release = async () => {
    await checkpoints.close();
    log.close();
  };
  return withWriter(database, { settleFirst, flush, pause: checkpoints.pause, release });
}

interface Disk extends Partial<Omit<WriterDeps, 'database'>> {
  readonly release?: () => Promise<void>;
}

function withWriter(database: Sqlite.Database, disk: Disk): Database {
  const { settleFirst = async () => {}, flush = async () => {}, pause = () => undefined } = disk;
  const { release = async () => {} } = disk;
  const writer = createWriter({ database, settleFirst, flush, pause });
  const end = async () => {
    // Runs after the writes in progress.
    await writer.commit(() => {}).catch(() => {});
    await release();
    database.close();
  };
  return Object.assign(database, sqliteStatements(database, writer), { end });
}

const sync = promisify(fdatasync);

/** Brings a write-ahead log to the disk, off the main thread. */
interface LogFlush {
  /** Resolves when everything that was in the file before the call is on the disk. */
  flush(): Promise<void>;
  close(): void;
}

/**
 * @param path the `-wal` file of an open database. SQLite takes its locks on other files, so that closing
 *   this one releases none.
 */
function createLogFlush(path: string): LogFlush {
  let file: number | undefined;
  const flushes = new SingleFlight<void>();
  const flush = async () => {
    file ??= openSync(path, 'r');
    await sync(file);
  };
  return {
    flush: () => flushes.runFresh(flush),
    close() {
      if (file !== undefined) closeSync(file);
      file = undefined;
    },
  };
}
