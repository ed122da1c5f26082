import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { Fault } from '../../../foundation/fault.ts';
import { connectionOf } from './postgres-connection.ts';

/** A connection that may get the lock of the server. */
export interface LockSession {
  readonly client: pg.Client;
  /** Its process in PostgreSQL. */
  readonly pid: number;
  readonly isEnded: Promise<void>;
}

/** How the connection that has the lock is tested (ms). */
export interface Heartbeat {
  readonly pauseMs: number;
  /** How long PostgreSQL has for its response before changes are refused. */
  readonly doubtMs: number;
  /** How long it has before the connection counts as lost. */
  readonly responseMs: number;
}

/** What the database says to each test of the connection. */
export interface Beat {
  /** True when another replica waits for the lock. */
  readonly hasSuccessor: boolean;
  /** True when another replica was chosen to lead next. */
  readonly isReplaced: boolean;
}

/** What the test of the connection finds. */
export interface HeartbeatEvents {
  /** Called when a response is late. */
  readonly onDoubt: () => void;
  /** Called with each response. */
  readonly onResponse: (response: Beat) => void;
}

const readOnlyTransaction = '25006';
const statementMs = 10_000;
const queryMs = 12_000;

/**
 * PostgreSQL ends the session of a silent host after 15 seconds. The host refuses changes within 5, and lets the connection
 * go after 11: a database that was only slow does not change its leader.
 */
export const usualHeartbeat: Heartbeat = { pauseMs: 1000, doubtMs: 3500, responseMs: 10_000 };
/** Of a server without replicas: nobody waits for its lead. */
export const singleHeartbeat: Heartbeat = { ...usualHeartbeat, pauseMs: 5000 };

// The keepalive of TCP rests while a response is on its way: then the last limit holds. The role or the database may
// have other values of the others.
const sessionSettings = `
  SET tcp_keepalives_idle = 6; SET tcp_keepalives_interval = 3; SET tcp_keepalives_count = 3;
  SET tcp_user_timeout = 15000;
  SET idle_session_timeout = 0; SET lock_timeout = 0;
  SET default_transaction_isolation = 'read committed'`;

const whoSql = 'SELECT pg_backend_pid() AS pid, pg_is_in_recovery() AS standby';

/** Returns a client for the lock that is not connected yet. */
export function lockClient(url: string, name: string): pg.Client {
  return new pg.Client({
    ...connectionOf(url),
    statement_timeout: statementMs,
    query_timeout: queryMs,
    application_name: name,
  });
}

/**
 * Connects a client.
 *
 * @throws {@link Fault} when something on the way to PostgreSQL shares its connections; an error of PostgreSQL, also for a
 *   standby
 */
export async function openLockSession(create: () => pg.Client): Promise<LockSession> {
  const client = create();
  const isEnded = new Promise<void>(resolve => {
    client.once('end', resolve);
    client.on('error', () => resolve());
  });
  try {
    await client.connect();
    await client.query(sessionSettings);
    const { rows } = await client.query(whoSql);
    const pid = Number(rows[0]?.pid);
    requireDirect(client, pid);
    requirePrimary(rows[0]?.standby);
    return { client, pid, isEnded };
  } catch (error) {
    client.end().catch(() => {});
    throw error;
  }
}

/**
 * Resolves when the connection does not answer in time. A network that is cut off reports nothing.
 *
 * @param ask sends a short query on the connection
 */
export async function untilSilent(
  ask: () => Promise<Beat>,
  { pauseMs, doubtMs, responseMs }: Heartbeat,
  { onDoubt, onResponse }: HeartbeatEvents,
): Promise<void> {
  for (;;) {
    await sleep(pauseMs, undefined, { ref: false });
    const asked = ask().catch(() => undefined);
    let response = await within(doubtMs, asked);
    if (response === 'late') {
      onDoubt();
      response = await within(responseMs - doubtMs, asked);
    }
    if (response === 'late' || response === undefined) return;
    onResponse(response);
  }
}

async function within<T>(ms: number, asked: Promise<T>): Promise<T | 'late'> {
  const ended = new AbortController();
  // A process that did not run for a while finds the end of the time before the response that has arrived.
  const late = sleep(ms, undefined, { ref: false, signal: ended.signal }).then(() =>
    nextTurn('late' as const),
  );
  late.catch(() => {});
  const first = await Promise.race([asked, late]);
  ended.abort();
  return first;
}

/** What the driver knows from PostgreSQL's message BackendKeyData. */
interface WithProcess {
  readonly processID?: number | null;
}

/**
 * A pooler invents the number of the process, because a client has another process for each transaction. The lock would
 * stay with one of them, and each server would get it.
 */
function requireDirect(client: pg.Client & WithProcess, pid: number): void {
  if (client.processID === pid) return;
  throw new Fault(
    'internal',
    'SLUICE_DATABASE names a connection pooler, such as PgBouncer, behind which several servers would lead at once: name PostgreSQL itself',
    { phase: 'store' },
  );
}

/** A standby has locks of its own, and keeps none when it becomes the primary. */
function requirePrimary(isStandby: boolean): void {
  if (!isStandby) return;
  throw Object.assign(new Error('the server is a standby'), { code: readOnlyTransaction });
}

/** The replica that has the lock. */
export interface Leader {
  /** Where the other replicas reach it. */
  readonly address: string;
  /** Which keys it uses, see `ReplicaKeys`. */
  readonly keys: string;
}

/** Name of the connections of replicas that have the lock, or wait for it. */
export const replicaName = 'sluice replica';

/** Name of the connections through which a server changes rows. */
export const serverName = 'sluice server';

// Any number that no other user of the database takes.
export const serverLockKey = 7_583_190_234;
const undefinedTable = '42P01';

const tryLock = 'SELECT pg_try_advisory_lock($1)::int AS locked';
const tryLockForTransaction = 'SELECT pg_try_advisory_xact_lock($1)::int AS locked';
/** Finds the processes whose connections have the lock `$1`. */
export const holderSql = `SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 1
  AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
  AND (classid::bigint << 32) + objid::bigint = $1`;
const findLeader = `SELECT address, keys FROM leader WHERE pid IN (${holderSql})`;
const insertLeader = `INSERT INTO leader (address, keys, pid) VALUES ($1, $2, pg_backend_pid())
  ON CONFLICT ("only") DO UPDATE SET address = excluded.address, keys = excluded.keys, pid = excluded.pid`;
const leadChannel = 'sluice_lead';
const handedOver = 'handed over';
const timeSql = 'SELECT EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS time';
const announceSql = `${timeSql}, pg_notify($1, $2)`;
// Those that hear the news find a free lock: it is free before the news are sent.
const handOverSql = 'SELECT pg_advisory_unlock($1), pg_notify($2, $3)';
// A replica that waits asks twice a second. PostgreSQL may still list one whose machine has disappeared.
const waitingReplicas = `SELECT 1 FROM pg_stat_activity
  WHERE datname = current_database() AND usename = current_user AND application_name = $1
  AND pid <> pg_backend_pid() AND state_change > clock_timestamp() - interval '3 seconds' LIMIT 1`;
// The network of the server that had the lock before may be cut off. Its transactions would wait for it.
const endOthers = `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
  WHERE datname = current_database() AND usename = current_user AND application_name = '${serverName}'`;

/** Takes the lock for a connection, until it ends. Returns false when another one has it. */
export async function tryServerLock(client: pg.ClientBase): Promise<boolean> {
  return (await client.query(tryLock, [serverLockKey])).rows[0]?.locked === 1;
}

/** Takes the lock until the transaction ends. Returns false when another connection has it. */
export async function tryTransactionLock(client: pg.ClientBase): Promise<boolean> {
  return (await client.query(tryLockForTransaction, [serverLockKey])).rows[0]?.locked === 1;
}

/** Returns the processes of PostgreSQL whose connections have the lock: one, or none. */
export async function holdersOf(client: pg.ClientBase): Promise<number[]> {
  return (await client.query(holderSql, [serverLockKey])).rows.map(({ pid }) => Number(pid));
}

/** Returns the replica that has the lock; undefined before it has announced itself. */
export async function readLeader(client: pg.ClientBase): Promise<Leader | undefined> {
  try {
    return (await client.query(findLeader, [serverLockKey])).rows[0];
  } catch (error) {
    // The first leader of an empty database has not made the table yet.
    if (error instanceof Error && 'code' in error && error.code === undefinedTable)
      return undefined;
    throw error;
  }
}

/** Writes who leads, and lets the other replicas know. Returns the time of the database (ms since the epoch). */
export async function writeLeader(
  client: pg.ClientBase,
  { address, keys }: Leader,
): Promise<number> {
  await client.query(insertLeader, [address, keys]);
  return Number((await client.query(announceSql, [leadChannel, ''])).rows[0]?.time);
}

/** Returns the time of the database (ms since the epoch). */
export async function databaseTimeOf(client: pg.ClientBase): Promise<number> {
  return Number((await client.query(timeSql)).rows[0]?.time);
}

/** Names the connection in the list of PostgreSQL. */
export async function nameSession(client: pg.ClientBase, name: string): Promise<void> {
  await client.query("SELECT set_config('application_name', $1, false)", [name]);
}

/** Returns true when another replica waits for the lock, and has asked for it within the last seconds. */
export async function hasWaitingReplica(client: pg.ClientBase): Promise<boolean> {
  return (await client.query(waitingReplicas, [replicaName])).rowCount === 1;
}

/** Releases the lock, and wakes the replicas that wait for it. */
export async function handOverLock(client: pg.ClientBase): Promise<void> {
  await client.query(handOverSql, [serverLockKey, leadChannel, handedOver]);
}

/** Hears when the lock is handed over, and when a leader announces itself. */
export interface LeadNews {
  /** Waits for the time (ms), at most until the next news. Rejects with the reason of the signal. */
  wait(ms: number, signal?: AbortSignal): Promise<void>;
}

/**
 * Listens on a connection for news of the lead. They only save time: what they report is read from the database.
 *
 * @param onHandOver called when the leader has released the lock, and still finishes its transfers
 */
export async function listenForLead(
  client: pg.Client,
  onHandOver: () => void = () => {},
): Promise<LeadNews> {
  let news = Promise.withResolvers<void>();
  client.on('notification', ({ channel, payload }) => {
    if (channel !== leadChannel) return;
    if (payload === handedOver) onHandOver();
    news.resolve();
    news = Promise.withResolvers();
  });
  await client.query(`LISTEN ${leadChannel}`);
  return {
    async wait(ms, signal) {
      signal?.throwIfAborted();
      const ended = new AbortController();
      const end = () => ended.abort();
      signal?.addEventListener('abort', end, { once: true });
      const pause = sleep(ms, undefined, { signal: ended.signal }).catch(() => {});
      await Promise.race([news.promise, pause]);
      signal?.removeEventListener('abort', end);
      end();
      signal?.throwIfAborted();
    },
  };
}

/**
 * Returns the statements, for a transaction with READ COMMITTED, that end the connections of the server that had the lock
 * before, and enter who has it now. They wait for the transactions that began with the fence of another server. Only the
 * connection that has the lock runs them.
 *
 * @param id a UUID, another one for each server
 */
export function claimOf(id: string): string {
  return `${endOthers};
    CREATE TABLE IF NOT EXISTS lock_holder
      ("only" BOOLEAN PRIMARY KEY DEFAULT true CHECK ("only"), server TEXT NOT NULL);
    LOCK TABLE lock_holder IN EXCLUSIVE MODE;
    INSERT INTO lock_holder (server) VALUES ('${id}') ON CONFLICT ("only") DO UPDATE SET server = excluded.server`;
}

/** Enters that the server with this id has the lock, and ends the connections of the one before. */
export async function claimLock(client: pg.ClientBase, id: string): Promise<void> {
  await client.query(`BEGIN ISOLATION LEVEL READ COMMITTED; ${claimOf(id)}; COMMIT`);
}

/** Returns false when another server has had the lock since {@link claimLock}. */
export async function isClaimedBy(client: pg.ClientBase, id: string): Promise<boolean> {
  return (await client.query('SELECT 1 FROM lock_holder WHERE server = $1', [id])).rowCount === 1;
}

/**
 * Returns statements for the beginning of a transaction. They fail when another server has taken the lock, and no server
 * takes it between them and the end of the transaction. LOCK comes first: a serializable transaction sees the rows of the
 * moment of its first SELECT.
 */
export function fenceOf(id: string): string {
  return `LOCK TABLE lock_holder IN ROW SHARE MODE; SELECT 1 / count(*) FROM lock_holder WHERE server = '${id}'`;
}
