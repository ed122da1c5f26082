import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { Fault } from '../../../foundation/fault.ts';
import type { Answer, Call, Change, RowDatabase, WriteOptions } from '../driver/row-database.ts';
import { migratePostgres } from './postgres-migrations.ts';
import { PostgresCall, postgresStatement } from './postgres-statements.ts';

/** PostgreSQL as the database of the stores. */
export interface PostgresDatabase extends RowDatabase {
  /** Finishes the work in progress and closes the connections. */
  end(): Promise<void>;
}

export interface PostgresUse {
  /** Brings the content that rows refer to to the disk. Called before each change. */
  readonly settleFirst?: () => Promise<void>;
  /** True for a server: only one uses the database at a time. */
  readonly isServer?: boolean;
}

const mostConnections = 10;
const connectMs = 5000;
const statementMs = 30_000;
const defaultPatienceMs = 10_000;
const firstPauseMs = 5;
const longestPauseMs = 500;
const retryAfterSeconds = 5;

// A transaction that could not be in any order with the others, and a deadlock: nothing was changed.
// Any number that no other user of the database takes.
const serverLock = 7_583_190_234;
const conflicts = new Set(['40001', '40P01']);

const begin = 'BEGIN ISOLATION LEVEL SERIALIZABLE';
const beginHasty = `${begin}; SET LOCAL synchronous_commit = off`;
// This writes a record to the log, and waits until the log is on the disk.
const settle = "SELECT pg_logical_emit_message(true, 'sluice', '')";

/**
 * Connects to PostgreSQL and brings the schema up to date. Changes are serializable transactions; those that conflict
 * are tried again.
 *
 * @param url `postgres://user:password@host:port/database`; no message repeats it
 * @throws {@link Fault} (503) when the database cannot be reached, or was written by a newer version
 */
export async function openPostgres(url: string, use: PostgresUse = {}): Promise<PostgresDatabase> {
  const { settleFirst = async () => {}, isServer = false } = use;
  const pool = new pg.Pool({
    connectionString: url,
    max: mostConnections,
    connectionTimeoutMillis: connectMs,
    statement_timeout: statementMs,
    idle_in_transaction_session_timeout: statementMs,
    application_name: 'sluice',
    types: { getTypeParser: parserOf },
  });
  // An idle connection that breaks is replaced when it is needed.
  pool.on('error', () => {});

  const connect = async (): Promise<pg.PoolClient> => {
    try {
      const client = await pool.connect();
      // Between two statements, too, a connection may break. The next statement says so.
      if (client.listenerCount('error') < 2) client.on('error', () => {});
      return client;
    } catch (error) {
      throw faultOf(error);
    }
  };

  const read = async <T>(call: Call<T>): Promise<T> => {
    const client = await connect();
    try {
      const result = await follow(client, call);
      client.release();
      return result;
    } catch (error) {
      client.release(isBroken(error));
      throw faultOf(error);
    }
  };

  const tryOnce = async <T>(change: Change<T>, first: string): Promise<T> => {
    const client = await connect();
    try {
      await client.query(first);
      const result = await follow(client, change());
      await client.query('COMMIT');
      client.release();
      return result;
    } catch (error) {
      const isUndone = !isBroken(error) && (await undo(client));
      client.release(!isUndone);
      throw error;
    }
  };

  const transact = async <T>(
    change: Change<T>,
    first: string,
    { patienceMs = defaultPatienceMs }: WriteOptions = {},
  ): Promise<T> => {
    const deadline = performance.now() + patienceMs;
    for (let pauseMs = firstPauseMs; ; pauseMs = Math.min(longestPauseMs, pauseMs * 2)) {
      try {
        return await tryOnce(change, first);
      } catch (error) {
        const fault = faultOf(error);
        const isConflict = conflicts.has(codeOf(error)) && performance.now() < deadline;
        // What must not be lost waits until the database is there again.
        const isOutwaited = patienceMs === Number.POSITIVE_INFINITY && isUnavailable(fault);
        if (!isConflict && !isOutwaited) throw fault;
      }
      // Those that conflicted do not meet again.
      await sleep(pauseMs * (0.5 + Math.random()));
    }
  };

  const running = new Set<Promise<unknown>>();
  const tracked = <T>(change: Change<T>, first: string, options?: WriteOptions): Promise<T> => {
    const work = settleFirst().then(() => transact(change, first, options));
    running.add(work);
    const forget = () => running.delete(work);
    work.then(forget, forget);
    return work;
  };

  // The lock ends with its connection.
  const kept: pg.PoolClient[] = [];
  const lockForServer = async (client: pg.PoolClient): Promise<void> => {
    kept.push(client);
    const deadline = performance.now() + defaultPatienceMs;
    for (;;) {
      const { rows } = await client.query('SELECT pg_try_advisory_lock($1) AS locked', [
        serverLock,
      ]);
      if (rows[0]?.locked === 1) return;
      if (performance.now() > deadline) {
        throw new Fault(
          'unavailable',
          'Another server uses the database. One server at a time can: stop the other one first',
          { phase: 'store' },
        );
      }
      await sleep(longestPauseMs);
    }
  };

  try {
    const client = await connect();
    try {
      await migratePostgres(client);
    } finally {
      client.release();
    }
    if (isServer) await lockForServer(await connect());
  } catch (error) {
    for (const client of kept) client.release(true);
    await pool.end();
    throw faultOf(error);
  }

  return {
    sql: postgresStatement,
    read,
    write: (change, options) => tracked(change, begin, options),
    commit: (change, options) => tracked(change, beginHasty, options),
    async settle() {
      await Promise.allSettled(running);
      await pool.query(settle).catch(error => {
        throw faultOf(error);
      });
    },
    async end() {
      await Promise.allSettled(running);
      for (const client of kept) client.release(true);
      await pool.end();
    },
  };
}

/** Runs a change, statement by statement. */
async function follow<T>(client: pg.PoolClient, change: Call<T>): Promise<T> {
  const work = change[Symbol.iterator]();
  let step = work.next();
  while (step.done !== true) {
    const call = step.value;
    if (!(call instanceof PostgresCall)) {
      throw new Error('This statement belongs to another database');
    }
    const { name, text, values } = call;
    const { rows, rowCount } = await client.query({ name, text, values: [...values] });
    const answer: Answer = { rows, changes: rowCount ?? 0 };
    step = work.next(answer);
  }
  return step.value;
}

async function undo(client: pg.PoolClient): Promise<boolean> {
  return client.query('ROLLBACK').then(
    () => true,
    () => false,
  );
}

const numbers = new Set<number>([pg.types.builtins.INT8, pg.types.builtins.NUMERIC]);

/** Values as SQLite has them: numbers, and truth as 0 and 1. */
function parserOf(type: number, format?: 'text' | 'binary') {
  if (numbers.has(type)) return Number;
  if (type === pg.types.builtins.BOOL) return (text: string) => (text === 't' ? 1 : 0);
  return pg.types.getTypeParser(type, format as 'text');
}

function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error ? String(error.code) : '';
}

// Codes of five characters come from the server. Class 57P: it stops, or starts. Class 08: the connection. 53300: no
// connection is free.
const unavailable = /^(?:57P\d\d|08\w{3}|53\w{3}|57014)$/;

/** True when the connection is not usable any more, or may not be. */
function isBroken(error: unknown): boolean {
  if (error instanceof Fault) return false;
  const code = codeOf(error);
  return !/^[0-9A-Z]{5}$/.test(code) || /^(?:57P|08)/.test(code);
}

function isUnavailable(error: unknown): boolean {
  return error instanceof Fault && error.kind === 'unavailable';
}

/** Returns errors of the connection as a fault that names no address and no password. */
function faultOf(error: unknown): unknown {
  if (error instanceof Fault) return error;
  const code = codeOf(error);
  if (conflicts.has(code)) {
    return new Fault(
      'unavailable',
      'Too many changes of the same rows came at once, and nothing was changed: try again in a moment',
      { phase: 'store', retryAfterSeconds, cause: error },
    );
  }
  const isOfConnection =
    /^E[A-Z]+$/.test(code) ||
    (error instanceof Error && /^(?:Connection terminated|timeout e)/i.test(error.message));
  if (!isOfConnection && !unavailable.test(code)) return error;
  return new Fault(
    'unavailable',
    `The database does not answer (${code || 'the connection ended'}): try again in a moment. The operator finds the state of PostgreSQL in its log`,
    { phase: 'store', retryAfterSeconds, cause: error },
  );
}
