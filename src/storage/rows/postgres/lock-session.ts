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

/** How often the connection that has the lock is tested, and how long PostgreSQL has for its response (ms). */
export interface Heartbeat {
  readonly pauseMs: number;
  readonly responseMs: number;
}

const readOnlyTransaction = '25006';
const statementMs = 10_000;
const queryMs = 12_000;

/** PostgreSQL ends the session of a silent host after 35 seconds. The host notices after 15. */
export const usualHeartbeat: Heartbeat = { pauseMs: 5000, responseMs: 10_000 };

// The keepalive of TCP rests while a response is on its way: then the last limit holds. The role or the database may
// have other values of the others.
const settings = `
  SET tcp_keepalives_idle = 15; SET tcp_keepalives_interval = 5; SET tcp_keepalives_count = 4;
  SET tcp_user_timeout = 35000;
  SET idle_session_timeout = 0; SET lock_timeout = 0;
  SET default_transaction_isolation = 'read committed'`;

const who = 'SELECT pg_backend_pid() AS pid, pg_is_in_recovery() AS standby';

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
    await client.query(settings);
    const { rows } = await client.query(who);
    const pid = Number(rows[0]?.pid);
    requireDirect(client, pid);
    requirePrimary(rows[0]?.standby);
    return { client, pid, isEnded };
  } catch (error) {
    client.end().catch(() => {});
    throw error;
  }
}

/** Resolves when the connection does not answer in time. A network that is cut off reports nothing. */
export async function untilSilent(
  { client }: LockSession,
  { pauseMs, responseMs }: Heartbeat,
): Promise<void> {
  for (let hasResponse = true; hasResponse; ) {
    await sleep(pauseMs, undefined, { ref: false });
    const late = new AbortController();
    const asked = client.query('SELECT 1').then(
      () => true,
      () => false,
    );
    // A process that did not run for a while finds the end of the time before the response that has arrived.
    const silence = sleep(responseMs, undefined, { ref: false, signal: late.signal }).then(() =>
      nextTurn(false),
    );
    silence.catch(() => {});
    hasResponse = await Promise.race([asked, silence]);
    late.abort();
  }
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
