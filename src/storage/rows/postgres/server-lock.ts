import { setTimeout as sleep } from 'node:timers/promises';
import type pg from 'pg';
import { Fault } from '../../../foundation/fault.ts';

/** The lock of the server that uses the database. It ends with its connection, and is taken again. */
export interface ServerLock {
  /** Throws a {@link Fault} (503) while this server does not have the lock. */
  require(): void;
  /** False while another server may have the lock. */
  readonly isHeld: boolean;
  /** True when another server took the lock. This server does not take it again. */
  readonly isTaken: boolean;
  /**
   * Writes where the other replicas reach this server. They see it while this server has the lock: after a lost connection
   * it is written again.
   */
  announce(leader: Leader): Promise<void>;
  release(): Promise<void>;
}

/** The replica that has the lock. */
export interface Leader {
  /** Where the other replicas reach it. */
  readonly address: string;
  /** Which keys it uses, see `ReplicaKeys`. */
  readonly keys: string;
}

/** Name of the connections through which a server changes rows. */
export const serverName = 'sluice server';

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
const findLeader = `SELECT address, keys FROM leader WHERE pid IN (${holder})`;
const writeLeader = `INSERT INTO leader (address, keys, pid) VALUES ($1, $2, pg_backend_pid())
  ON CONFLICT ("only") DO UPDATE SET address = excluded.address, keys = excluded.keys, pid = excluded.pid`;
// The network of the server that had the lock before may be cut off. When it is back, a change that was sent long ago
// would arrive.
const endOthers = `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
  WHERE datname = current_database() AND usename = current_user AND application_name = $1`;

/** Takes the lock for a connection, until it ends. Returns false when another one has it. */
export async function tryServerLock(client: pg.ClientBase): Promise<boolean> {
  return (await client.query(tryLock, [key])).rows[0]?.locked === 1;
}

/** Returns the replica that has the lock; undefined before it has announced itself. */
export async function readLeader(client: pg.ClientBase): Promise<Leader | undefined> {
  return (await client.query(findLeader, [key])).rows[0];
}

export interface LockWait {
  /** How long another server may have the lock (ms). `Infinity` waits through outages of the database as well. */
  readonly patienceMs: number;
  /** Called when the lock is lost, held again, or taken by another server. */
  readonly onNews?: ((news: LockNews) => void) | undefined;
  /** Called each half second while another server has the lock. */
  readonly whileWaiting?: (client: pg.ClientBase) => Promise<void>;
  /** Ends the wait. */
  readonly signal?: AbortSignal;
}

/** A connection that may get the lock. */
interface Session {
  readonly client: pg.Client;
  readonly pid: number;
  readonly isEnded: Promise<void>;
}

/**
 * Takes the lock, and takes it again whenever its connection ends.
 *
 * @param create returns a client that is not connected yet
 * @throws {@link Fault} (503) when another server has the lock for longer than the patience; the reason of the signal
 */
export async function takeServerLock(
  create: () => pg.Client,
  { patienceMs, onNews = () => {}, whileWaiting, signal: wish }: LockWait,
): Promise<ServerLock> {
  let held: Session | undefined;
  // Waits for the lock. PostgreSQL starts a process for each new connection.
  let waiting: Session | undefined;
  let leader: Leader | undefined;
  let isTaken = false;
  const closing = new AbortController();
  const { signal } = closing;
  // PostgreSQL may not know yet that one of these sessions has ended.
  const own = new Set<number>();

  const open = async (): Promise<Session> => {
    const client = create();
    const isEnded = new Promise<void>(resolve => {
      client.once('end', resolve);
      client.on('error', () => resolve());
    });
    try {
      await client.connect();
      await client.query(endSilent);
      const { rows } = await client.query('SELECT pg_backend_pid() AS pid');
      return { client, pid: Number(rows[0]?.pid), isEnded };
    } catch (error) {
      client.end().catch(() => {});
      throw error;
    }
  };

  /** Returns `own` while PostgreSQL keeps the lock for an earlier session of this server. */
  const attempt = async (): Promise<'locked' | 'own' | 'taken'> => {
    const session = waiting ?? (await open());
    waiting = undefined;
    const { client, pid, isEnded } = session;
    try {
      const before = new Set(own);
      own.add(pid);
      if (await tryServerLock(client)) {
        if (leader) await announceBy(client, leader);
        held = session;
        void isEnded.then(lost);
        return 'locked';
      }
      own.delete(pid);
      const { rows } = await client.query(holder, [key]);
      waiting = session;
      return rows.some(row => !before.has(Number(row.pid))) ? 'taken' : 'own';
    } catch (error) {
      client.end().catch(() => {});
      throw error;
    }
  };

  const drop = async (): Promise<void> => {
    const sessions = [held, waiting];
    held = undefined;
    waiting = undefined;
    await Promise.all(sessions.map(session => session?.client.end().catch(() => {})));
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
        void drop();
        onNews('taken');
        return;
      }
      await sleep(pauseMs, undefined, { signal }).catch(() => {});
    }
  };

  const deadline = performance.now() + patienceMs;
  const isPatient = patienceMs === Number.POSITIVE_INFINITY;
  const isLocked = async (): Promise<boolean> => {
    try {
      if ((await attempt()) === 'locked') return true;
      if (waiting) await whileWaiting?.(waiting.client);
    } catch (error) {
      await drop();
      if (!isPatient) throw error;
    }
    return false;
  };
  try {
    while (!(await isLocked())) {
      if (performance.now() > deadline) throw usedByOther();
      await sleep(pauseMs, undefined, { signal: wish });
    }
    await held?.client.query(endOthers, [serverName]);
  } catch (error) {
    closing.abort();
    await drop();
    throw error;
  }

  return {
    require() {
      if (isTaken) throw leader ? takenByLeader() : takenByOther();
      if (held === undefined) throw notHeld();
    },
    get isHeld() {
      return held !== undefined;
    },
    get isTaken() {
      return isTaken;
    },
    async announce(given) {
      leader = given;
      // Without the lock at this moment, it is written as soon as the lock is held again.
      if (held) await announceBy(held.client, given);
    },
    async release() {
      closing.abort();
      // A network that lost the connection gives no answer.
      await Promise.race([drop(), sleep(pauseMs, undefined, { ref: false })]);
    },
  };
}

async function announceBy(client: pg.ClientBase, { address, keys }: Leader): Promise<void> {
  await client.query(writeLeader, [address, keys]);
}

function usedByOther(): Fault {
  return new Fault(
    'unavailable',
    'Another server uses the database. One server at a time can: stop the other one first. If its host has failed, PostgreSQL notices that within a minute',
    { phase: 'store' },
  );
}

function takenByLeader(): Fault {
  return new Fault(
    'unavailable',
    'Another replica leads now, and this one changes nothing any more: try again in a moment',
    { phase: 'store', retryAfterSeconds },
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
