import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { Semaphore } from '../../../foundation/semaphore.ts';
import type { ConnectionCounts } from '../../../foundation/telemetry/index.ts';
import { traced } from '../../../tracing/traces.ts';
import {
  type Call,
  type Change,
  isLast,
  type RowDatabase,
  type Sent,
  type StatementResults,
  type WriteOptions,
} from '../row-database.ts';
import { silentDatabase } from './lock-faults.ts';
import { lockClient, serverName, singleHeartbeat } from './lock-session.ts';
import {
  connectionOf,
  createPostgresPool,
  faultOf,
  isBroken,
  isConflict,
  isFenced,
  isLockTimeout,
  isUnavailable,
  type PostgresPool,
  startFaultOf,
  type WithSocket,
} from './postgres-connection.ts';
import { migratePostgres } from './postgres-migrations.ts';
import { PostgresCall, postgresStatement, storable } from './postgres-statements.ts';
import { type LockNews, type ServerLock, takeServerLock } from './server-lock.ts';

/** PostgreSQL as the database of the stores. */
export interface PostgresDatabase extends RowDatabase {
  /** Returns how many connections there are now. */
  connections(): ConnectionCounts;
  /** Returns its time, in ms since the epoch. */
  databaseTime(): Promise<number>;
  /** False while another server may change the rows. */
  isCurrent(): boolean;
  /** See `Rows`. */
  requireChanges(): void;
  /** See `Rows`. */
  hasSuccessor(): boolean;
  /** Finishes the work in progress and closes the connections. */
  end(): Promise<void>;
}

export interface PostgresUse {
  /** Brings the content that rows refer to to the disk. Called before each change. */
  readonly settleFirst?: () => Promise<void>;
  /** True for a server: only one uses the database at a time. */
  readonly isServer?: boolean;
  /** The lock of the server, if it is held already. It is released with the database. */
  readonly lock?: ServerLock;
  /** Called when the lock of the server is lost, held again, or taken by another server. */
  readonly onLock?: (news: LockNews) => void;
  /** Time limit of a statement (ms). Default: 30 seconds. */
  readonly statementMs?: number;
}

const defaultStatementMs = 30_000;
// PostgreSQL ends a statement first. Without a response by then, the network has lost the connection.
const roundTripFactor = 7 / 6;
const defaultPatienceMs = 10_000;
const firstPauseMs = 5;
const longestPauseMs = 500;
// A change that has met others so often goes alone: a long one would lose to short ones again and again.
const mostMeetings = 6;

const beginSql = 'BEGIN ISOLATION LEVEL SERIALIZABLE';
const hastySql = '; SET LOCAL synchronous_commit = off';
// This writes a record to the log, and waits until the log is on the disk.
const settleSql = "SELECT pg_logical_emit_message(true, 'sluice', '')";

const timeSql = postgresStatement(
  'SELECT EXTRACT(EPOCH FROM clock_timestamp()) * 1000',
).pluck<number>();

/**
 * Connects to PostgreSQL and brings the schema up to date. Changes are serializable transactions; those that conflict
 * are tried again.
 *
 * @param url `postgres://user:password@host:port/database`; no message repeats it
 * @throws {@link Fault} (503) when the database cannot be reached, or was written by a newer version
 */
export async function openPostgres(url: string, use: PostgresUse = {}): Promise<PostgresDatabase> {
  const { settleFirst = async () => {}, isServer = false, onLock } = use;
  const { statementMs = defaultStatementMs } = use;
  const config = {
    ...connectionOf(url),
    statement_timeout: statementMs,
    query_timeout: Math.ceil(statementMs * roundTripFactor),
    idle_in_transaction_session_timeout: statementMs,
    application_name: isServer ? serverName : 'sluice',
    // What does not wait for a response is sent at once.
    pipeline: true,
    types: { getTypeParser: parserOf },
  };
  const { pool, connect: connectAnyway, breakAll } = createPostgresPool(config);
  const closing = new AbortController();
  let { lock } = use;

  const connect = async (): Promise<pg.PoolClient> => {
    if (lock?.isSilent) throw silentDatabase();
    return connectAnyway();
  };
  const read = <T>(call: Call<T>): Promise<T> => readWith(connect, call);

  const tryOnce = async <T>(
    change: Change<T>,
    more: string,
    signal: AbortSignal | undefined,
  ): Promise<T> => {
    const requireWanted = () => {
      lock?.require();
      signal?.throwIfAborted();
    };
    requireWanted();
    const client = await connect();
    try {
      // The lock may have been lost, or the caller may have left, while this change waited for a connection.
      requireWanted();
    } catch (error) {
      client.release();
      throw error;
    }
    try {
      const first = lock ? `${beginSql}; ${lock.fence}${more}` : beginSql + more;
      const result = await inTransaction(client, change(), first);
      client.release();
      return result;
    } catch (error) {
      const isUndone = !isBroken(error) && (await rollBack(client));
      client.release(!isUndone);
      throw lock && isFenced(error) ? lock.noteTaken() : error;
    }
  };

  const passage = createPassage();
  const transact = async <T>(
    change: Change<T>,
    more: string,
    { patienceMs = defaultPatienceMs, signal }: WriteOptions = {},
  ): Promise<T> => {
    const deadline = performance.now() + patienceMs;
    let met = 0;
    for (let pauseMs = firstPauseMs; ; pauseMs = Math.min(longestPauseMs, pauseMs * 2)) {
      try {
        const attempt = () => tryOnce(change, more, signal);
        return await (met < mostMeetings ? passage.together(attempt) : passage.alone(attempt));
      } catch (error) {
        const fault = faultOf(error);
        const hasMet = isConflict(error);
        // Alone, it would let all others wait for the lock too.
        if (hasMet && !isLockTimeout(error)) met += 1;
        const isRepeated = hasMet && performance.now() < deadline;
        // What must not be lost waits until the database is there again, or until this process ends.
        const isOutwaited =
          patienceMs === Number.POSITIVE_INFINITY &&
          isUnavailable(fault) &&
          !closing.signal.aborted &&
          !lock?.isTaken;
        if (!isRepeated && !isOutwaited) throw fault;
      }
      // Those that conflicted do not meet again.
      await sleep(pauseMs * (0.5 + Math.random()));
    }
  };

  const running = new Set<Promise<unknown>>();
  const tracked = <T>(change: Change<T>, more: string, options?: WriteOptions): Promise<T> => {
    const work = settleFirst().then(() => transact(change, more, options));
    running.add(work);
    const forget = () => running.delete(work);
    work.then(forget, forget);
    return work;
  };

  try {
    if (isServer) {
      // The schema stays as it is while another server works with it.
      lock ??= await takeServerLock(() => lockClient(url, 'sluice'), {
        patienceMs: defaultPatienceMs,
        onNews: onLock,
        heartbeat: singleHeartbeat,
      });
    }
    // What waits for a response would wait for half a minute.
    lock?.onSilence(breakAll);
    const client = await connect();
    try {
      await migratePostgres(client, { fence: lock?.fence });
    } finally {
      client.release();
    }
  } catch (error) {
    const fault = lock && isFenced(error) ? lock.noteTaken() : startFaultOf(error);
    await lock?.release();
    await pool.end();
    throw fault;
  }

  return {
    sql: postgresStatement,
    read,
    write: (change, options) => tracked(change, '', options),
    commit: (change, options) => tracked(change, hastySql, options),
    async settle() {
      // The log is in the order of the commits. A change that is still tried is not in it.
      const client = await connect();
      try {
        await client.query(settleSql);
        client.release();
      } catch (error) {
        client.release(true);
        throw faultOf(error);
      }
    },
    connections() {
      const { totalCount, idleCount, waitingCount } = pool;
      return { busy: totalCount - idleCount, idle: idleCount, waiting: waitingCount };
    },
    databaseTime: async () => (await read(timeSql.get())) ?? 0,
    isCurrent: () => lock?.isHeld ?? true,
    requireChanges() {
      // Without them, changes may succeed in a moment, as soon as the lock is held again.
      if (lock?.isTaken || lock?.isSilent) lock.require();
    },
    hasSuccessor: () => lock?.hadSuccessor ?? false,
    async end() {
      closing.abort();
      await Promise.allSettled(running);
      await lock?.release();
      await pool.end();
    },
  };
}

/**
 * Reads on a connection of a pool.
 *
 * @param connect returns a connection, which is released afterwards
 */
export async function readWith<T>(
  connect: () => Promise<pg.PoolClient>,
  call: Call<T>,
): Promise<T> {
  const client = await connect();
  try {
    const result = await followCalls(call, calls =>
      withoutConflict(() => sendCalls(client, calls)),
    );
    client.release();
    return result;
  } catch (error) {
    client.release(isBroken(error));
    throw faultOf(error);
  }
}

/** Reads with single statements in one round trip, on a connection of a pool. */
export async function readTogether(
  connect: () => Promise<pg.PoolClient>,
  calls: Sent,
): Promise<StatementResults> {
  const client = await connect();
  try {
    const results = await sendCalls(client, calls);
    client.release();
    return results;
  } catch (error) {
    client.release(isBroken(error));
    throw faultOf(error);
  }
}

/** Reads again what conflicted: the role or the database may read in serializable transactions. */
async function withoutConflict<T>(read: () => Promise<T>): Promise<T> {
  const deadline = performance.now() + defaultPatienceMs;
  for (;;) {
    try {
      return await read();
    } catch (error) {
      if (!isConflict(error) || performance.now() > deadline) throw error;
    }
    await sleep(firstPauseMs);
  }
}

/** Runs a change from its beginning to its end. A single statement costs one round trip. */
async function inTransaction<T>(client: pg.PoolClient, change: Call<T>, first: string): Promise<T> {
  if (change instanceof PostgresCall) {
    return followCalls(change, calls => sendCalls(client, calls, { first, last: 'COMMIT' }));
  }
  let isBegun = false;
  let isEnded = false;
  const result = await followCalls(change, calls => {
    if (isEnded) throw new Error('A statement follows the last ones of a change');
    const before = isBegun ? {} : { first };
    isBegun = true;
    isEnded = isLast(calls);
    return sendCalls(client, calls, isEnded ? { ...before, last: 'COMMIT' } : before);
  });
  if (isBegun && !isEnded) await client.query('COMMIT');
  return result;
}

/** Runs a change, or reads, step by step. */
async function followCalls<T>(
  call: Call<T>,
  run: (calls: Sent) => Promise<StatementResults>,
): Promise<T> {
  const work = call[Symbol.iterator]();
  let step = work.next();
  while (step.done !== true) step = work.next(await run(step.value));
  return step.value;
}

interface Around {
  /** Statements before and after the calls, whose responses nobody needs. */
  readonly first?: string;
  readonly last?: string;
}

/**
 * Sends calls, and what stands around them, in one round trip. Resolves or rejects when all have been answered, with the
 * first error: in a transaction, the others follow from it.
 */
async function sendCalls(
  client: pg.PoolClient,
  calls: Sent,
  around: Around = {},
): Promise<StatementResults> {
  const [first] = calls;
  const attributes = {
    'db.system.name': 'postgresql',
    'db.operation.batch.size': calls.length,
    'db.query.text': first instanceof PostgresCall ? first.text : undefined,
  };
  return traced('postgresql', { kind: 'client', attributes }, () => sendNow(client, calls, around));
}

async function sendNow(
  client: pg.PoolClient,
  calls: Sent,
  { first, last }: Around,
): Promise<StatementResults> {
  const queries = calls.map(call => {
    if (!(call instanceof PostgresCall)) {
      throw new Error('This statement belongs to another database');
    }
    const { name, text, values } = call;
    return { name, text, values: values.map(storable) };
  });
  // Otherwise, each statement is a write of its own to the network.
  const stream = (client as WithSocket).connection?.stream;
  stream?.cork();
  const before = first === undefined ? [] : [client.query(first)];
  const sent = queries.map(query => client.query(query));
  const after = last === undefined ? [] : [client.query(last)];
  stream?.uncork();
  const results = await Promise.allSettled([...before, ...sent, ...after]);
  for (const result of results) if (result.status === 'rejected') throw result.reason;
  return (await Promise.all(sent)).map(({ rows, rowCount }) => ({ rows, changes: rowCount ?? 0 }));
}

async function rollBack(client: pg.PoolClient): Promise<boolean> {
  return client.query('ROLLBACK').then(
    () => true,
    () => false,
  );
}

const numberTypes = new Set<number>([pg.types.builtins.INT8, pg.types.builtins.NUMERIC]);

/** How a pool reads. Times are in ms. */
interface ReadPoolOptions {
  /** What PostgreSQL calls its connections. */
  readonly name: string;
  readonly connectMs: number;
  readonly statementMs: number;
  readonly responseMs: number;
  /** Connections at once. */
  readonly most: number;
  /** Statements that each connection begins with. */
  readonly settings: readonly string[];
}

/** Creates a pool for statements that only read, several of them in one round trip. */
export function createReadPool(url: string, options: ReadPoolOptions): PostgresPool {
  const { name, connectMs, statementMs, responseMs, most, settings } = options;
  const config = {
    ...connectionOf(url),
    connectionTimeoutMillis: connectMs,
    statement_timeout: statementMs,
    query_timeout: responseMs,
    application_name: name,
    pipeline: true,
    types: { getTypeParser: parserOf },
  };
  return createPostgresPool(config as pg.PoolConfig, most, settings);
}

/** Values as SQLite has them: numbers, and truth as 0 and 1. */
function parserOf(type: number, format?: 'text' | 'binary') {
  if (numberTypes.has(type)) return Number;
  if (type === pg.types.builtins.BOOL) return (text: string) => (text === 't' ? 1 : 0);
  return pg.types.getTypeParser(type, format as 'text');
}

/** Lets work run side by side, and work that would never end beside other work alone. */
export interface Passage {
  /** Runs the work beside others, and waits while some work is alone. */
  together<T>(work: () => Promise<T>): Promise<T>;
  /** Waits until all work that runs has ended, and runs this one alone. */
  alone<T>(work: () => Promise<T>): Promise<T>;
}

// More than ever run side by side.
const allPlaces = 2 ** 31;

export function createPassage(): Passage {
  const places = new Semaphore({ limit: allPlaces });
  return {
    together: work => places.run(work),
    alone: work => places.run(work, { weight: allPlaces }),
  };
}
