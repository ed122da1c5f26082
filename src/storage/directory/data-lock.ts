import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import Database from 'better-sqlite3';
import { Fault } from '../../foundation/fault.ts';
import { makePrivateFile } from './private-files.ts';

const defaultPatienceMs = 60_000;
const pauseMs = 200;

export interface LockOptions {
  /** Time to wait for the lock (ms). Default: a minute. */
  readonly patienceMs?: number;
  /** Says who may hold the lock, and what to do. */
  readonly message?: string;
}

/**
 * Locks the data directory for this server alone, until the lock is disposed of or the process ends, however it ends.
 * Two servers would remove each other's uploads and run each other's builds. Waits for a server that is still
 * stopping.
 *
 * @param onWait called once when another process holds the lock
 * @throws {@link Fault} when it is not free in time
 */
export async function lockData(
  directory: string,
  onWait: () => void,
  {
    patienceMs = defaultPatienceMs,
    message = 'Another server uses the data directory: stop it, or name another directory with SLUICE_DATA',
  }: LockOptions = {},
): Promise<Disposable> {
  const path = join(directory, 'server.lock');
  makePrivateFile(path);
  // The lock of a database is a kernel lock on its file, and Node has no other way to take one.
  const database = new Database(path, { timeout: 0 });
  let isWaiting = false;
  for (const began = performance.now(); ; await sleep(pauseMs)) {
    try {
      database.exec('BEGIN EXCLUSIVE');
      return { [Symbol.dispose]: () => void database.close() };
    } catch (error) {
      if (!isBusy(error) || performance.now() - began > patienceMs) {
        database.close();
        if (!isBusy(error)) throw error;
        throw new Fault('unavailable', message, { cause: error });
      }
      if (!isWaiting) onWait();
      isWaiting = true;
    }
  }
}

function isBusy(error: unknown): boolean {
  return error instanceof Database.SqliteError && error.code.startsWith('SQLITE_BUSY');
}
