import { setTimeout as sleep } from 'node:timers/promises';
import type pg from 'pg';
import { Fault } from '../../../foundation/fault.ts';

/** The lock of the server that uses the database. It ends with its connection, and is taken again. */
export interface ServerLock {
  /** Throws a {@link Fault} (503) while this server does not have the lock. */
  require(): void;
  /** True when another server took the lock. This server does not take it again. */
  readonly isTaken: boolean;
  release(): Promise<void>;
}

/** What happened to the lock. */
export type LockNews = 'lost' | 'held' | 'taken';

// Any number that no other user of the database takes.
const key = 7_583_190_234;
const pauseMs = 500;
const retryAfterSeconds = 5;

// PostgreSQL ends the session of a silent host after 35 seconds. The host knows after 20 seconds that it has lost it.
const endSilent =
  'SET tcp_keepalives_idle = 15; SET tcp_keepalives_interval = 5; SET tcp_keepalives_count = 4';
const tryLock = 'SELECT pg_try_advisory_lock($1)::int AS locked';
const holder = `SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 1
  AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
  AND (classid::bigint << 32) + objid::bigint = $1`;

/** Takes the lock for a connection, until it ends. Returns false when another one has it. */
export async function tryServerLock(client: pg.ClientBase): Promise<boolean> {
  return (await client.query(tryLock, [key])).rows[0]?.locked === 1;
}

/**
 * Takes the lock, and takes it again whenever its connection ends.
 *
 * @param create returns a client that is not connected yet
 * @param patienceMs how long another server may have the lock
 * @throws {@link Fault} (503) when another server has it for longer
 */
export async function takeServerLock(
  create: () => pg.Client,
  patienceMs: number,
  onNews: (news: LockNews) => void = () => {},
): Promise<ServerLock> {
  let client: pg.Client | undefined;
  let isTaken = false;
  const closing = new AbortController();
  const { signal } = closing;
  // PostgreSQL may not know yet that one of these sessions has ended.
  const own = new Set<number>();

  /** Returns `own` while PostgreSQL keeps the lock for an earlier session of this server. */
  const attempt = async (): Promise<'locked' | 'own' | 'taken'> => {
    const next = create();
    const isEnded = new Promise<void>(resolve => {
      next.once('end', resolve);
      next.on('error', () => resolve());
    });
    try {
      await next.connect();
      const pid = Number((await next.query('SELECT pg_backend_pid() AS pid')).rows[0]?.pid);
      const before = new Set(own);
      own.add(pid);
      await next.query(endSilent);
      if (await tryServerLock(next)) {
        client = next;
        void isEnded.then(lost);
        return 'locked';
      }
      const { rows } = await next.query(holder, [key]);
      next.end().catch(() => {});
      own.delete(pid);
      return rows.some(row => !before.has(Number(row.pid))) ? 'taken' : 'own';
    } catch (error) {
      next.end().catch(() => {});
      throw error;
    }
  };

  const drop = async (): Promise<void> => {
    const held = client;
    client = undefined;
    await held?.end().catch(() => {});
  };

  const lost = async (): Promise<void> => {
    void drop();
    if (signal.aborted) return;
    onNews('lost');
    while (!signal.aborted) {
      const result = await attempt().catch(() => 'own' as const);
      if (result === 'locked') {
        if (signal.aborted) await drop();
        else onNews('held');
        return;
      }
      if (result === 'taken') {
        isTaken = true;
        onNews('taken');
        return;
      }
      await sleep(pauseMs, undefined, { signal }).catch(() => {});
    }
  };

  const deadline = performance.now() + patienceMs;
  while ((await attempt()) !== 'locked') {
    if (performance.now() > deadline) throw usedByOther();
    await sleep(pauseMs);
  }

  return {
    require() {
      if (isTaken) throw takenByOther();
      if (client === undefined) throw notHeld();
    },
    get isTaken() {
      return isTaken;
    },
    async release() {
      closing.abort();
      // A network that lost the connection gives no answer.
      await Promise.race([drop(), sleep(pauseMs, undefined, { ref: false })]);
    },
  };
}

function usedByOther(): Fault {
  return new Fault(
    'unavailable',
    'Another server uses the database. One server at a time can: stop the other one first. If its host has failed, PostgreSQL notices that within a minute',
    { phase: 'store' },
  );
}

function takenByOther(): Fault {
  return new Fault(
    'unavailable',
    'Another server has taken the database, and this one changes nothing any more: the operator stops one of them, and restarts this one if it is the one to keep',
    { phase: 'store' },
  );
}

function notHeld(): Fault {
  return new Fault(
    'unavailable',
    'The connection to the database was lost and is being restored: try again in a moment',
    { phase: 'store', retryAfterSeconds },
  );
}
