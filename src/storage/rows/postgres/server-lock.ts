import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type pg from 'pg';
import { Fault } from '../../../foundation/fault.ts';
import {
  claimLock,
  fenceOf,
  type Heartbeat,
  holdersOf,
  isClaimedBy,
  type Leader,
  type LockSession,
  lockClient,
  openLockSession,
  readLeader,
  tryServerLock,
  untilSilent,
  usualHeartbeat,
  writeLeader,
} from './lock-session.ts';
import { isUnavailable, startFaultOf } from './postgres-connection.ts';

/** The lock of the server that uses the database. It ends with its connection, and is taken again. */
export interface ServerLock {
  /** Throws a {@link Fault} (503) while this server does not have the lock. */
  require(): void;
  /** False while another server may have the lock. */
  readonly isHeld: boolean;
  /** True when another server took the lock. This server does not take it again. */
  readonly isTaken: boolean;
  /** Statements that each transaction begins with. They fail when another server has taken the lock. */
  readonly fence: string;
  /** Notes that another server has taken the lock, which a failed fence proves. Returns the fault (503) of the change. */
  noteTaken(): Fault;
  /**
   * Writes where the other replicas reach this server. They see it while this server has the lock: after a lost connection
   * it is written again.
   */
  announce(leader: Leader): Promise<void>;
  release(): Promise<void>;
}

/** What happened to the lock. */
export type LockNews = 'lost' | 'held' | 'taken';

const pauseMs = 500;
const retryAfterSeconds = 5;

export interface LockWait {
  /** How long another server may have the lock (ms). `Infinity` waits through outages of the database as well. */
  readonly patienceMs: number;
  /** Called when the lock is lost, held again, or taken by another server. */
  readonly onNews?: ((news: LockNews) => void) | undefined;
  /** Called with each new reason why the database cannot be asked; undefined when it answers again. */
  readonly onOutage?: (reason: string | undefined) => void;
  /** Called each half second while another server has the lock. */
  readonly whileWaiting?: (client: pg.ClientBase) => Promise<void>;
  /** Ends the wait. */
  readonly signal?: AbortSignal;
  readonly heartbeat?: Heartbeat;
}

/**
 * Takes the lock, and takes it again whenever its connection ends, unless another server has had it meanwhile.
 *
 * @param create returns a client that is not connected yet
 * @throws {@link Fault} (503) when another server has the lock for longer than the patience; another fault when the address
 *   is wrong, or the database rejects its login; the reason of the signal
 */
export async function takeServerLock(
  create: () => pg.Client,
  {
    patienceMs,
    onNews = () => {},
    onOutage = () => {},
    whileWaiting,
    signal: cancelled,
    heartbeat = usualHeartbeat,
  }: LockWait,
): Promise<ServerLock> {
  const id = randomUUID();
  let isClaimed = false;
  let held: LockSession | undefined;
  // Waits for the lock. PostgreSQL starts a process for each new connection.
  let waiting: LockSession | undefined;
  let leader: Leader | undefined;
  let isTaken = false;
  const closing = new AbortController();
  const { signal } = closing;
  const outages = outagesFor(onOutage);
  // PostgreSQL may not know yet that one of these sessions has ended.
  const own = new Set<number>();

  /** Returns `own` while PostgreSQL keeps the lock for an earlier session of this server. */
  const attempt = async (): Promise<'locked' | 'own' | 'taken'> => {
    const session = waiting ?? (await openLockSession(create));
    waiting = undefined;
    const { client, pid } = session;
    try {
      const before = new Set(own);
      own.add(pid);
      if (!(await tryServerLock(client))) {
        own.delete(pid);
        const holders = await holdersOf(client);
        waiting = session;
        return holders.some(holder => !before.has(holder)) ? 'taken' : 'own';
      }
      if (!isClaimed) await claimLock(client, id);
      else if (!(await isClaimedBy(client, id))) {
        // The other one has ended. What it changed is not in the memory of this server.
        client.end().catch(() => {});
        return 'taken';
      }
      isClaimed = true;
      if (leader) await writeLeader(client, leader);
      hold(session);
      return 'locked';
    } catch (error) {
      client.end().catch(() => {});
      throw error;
    }
  };

  const hold = (session: LockSession): void => {
    held = session;
    void Promise.race([session.isEnded, untilSilent(session, heartbeat)]).then(() => lost(session));
  };

  const drop = async (): Promise<void> => {
    const sessions = [held, waiting];
    held = undefined;
    waiting = undefined;
    await Promise.all(sessions.map(session => session?.client.end().catch(() => {})));
  };

  const taken = () => (leader ? takenByLeader() : takenByOther());

  const noteTaken = (): Fault => {
    if (!isTaken) {
      isTaken = true;
      void drop();
      onNews('taken');
    }
    return taken();
  };

  const lost = async (session: LockSession): Promise<void> => {
    if (held !== session) return;
    void drop();
    onNews('lost');
    while (!signal.aborted && !isTaken) {
      const result = await attempt().then(outages.end, outages.note);
      if (result === 'taken') noteTaken();
      if (result === 'locked' && !signal.aborted && !isTaken) return onNews('held');
      await sleep(pauseMs, undefined, { signal }).catch(() => {});
    }
    // The last attempt may have opened one.
    await drop();
  };

  const deadline = performance.now() + patienceMs;
  const isPatient = patienceMs === Number.POSITIVE_INFINITY;
  let hasResponded = false;
  const isLocked = async (): Promise<boolean> => {
    try {
      if ((await attempt()) === 'locked') return true;
      if (waiting) await whileWaiting?.(waiting.client);
      hasResponded = true;
      outages.end();
    } catch (error) {
      await drop();
      const fault = startFaultOf(error);
      // A database that has answered once may have an outage. A wrong address, or a wrong password, stays wrong.
      if (!isPatient || !(hasResponded || isUnavailable(fault))) throw fault;
      outages.note(fault);
    }
    return false;
  };
  try {
    while (!(await isLocked())) {
      if (performance.now() > deadline) throw usedByOther();
      await sleep(pauseMs, undefined, { signal: cancelled });
    }
    outages.end();
  } catch (error) {
    closing.abort();
    await drop();
    throw error;
  }

  return {
    require() {
      if (isTaken) throw taken();
      if (held === undefined) throw notHeld();
    },
    get isHeld() {
      return held !== undefined;
    },
    get isTaken() {
      return isTaken;
    },
    fence: fenceOf(id),
    noteTaken,
    async announce(given) {
      leader = given;
      // Without the lock at this moment, it is written as soon as the lock is held again.
      const client = held?.client;
      // A break at this moment, too: the session ends, and with it this hold of the lock.
      if (client) await writeLeader(client, given).catch(() => client.end().catch(() => {}));
    },
    async release() {
      closing.abort();
      // A network that lost the connection gives no response.
      await Promise.race([drop(), sleep(pauseMs, undefined, { ref: false })]);
    },
  };
}

export interface LeadWait {
  /** Called each half second with the replica that leads now; undefined while nobody does. */
  readonly onLeader: (leader: Leader | undefined) => void;
  readonly onNews: (news: LockNews) => void;
  /** Called with each new reason why the database cannot be asked; undefined when it answers again. */
  readonly onOutage: (reason: string | undefined) => void;
  /** Ends the wait. */
  readonly signal: AbortSignal;
}

/**
 * Waits until no other replica has the lock of the server, and takes it. Waits through outages of the database.
 *
 * @throws {@link Fault} when the address is wrong, or the database rejects its login; the reason of the signal
 */
export function awaitLead(
  url: string,
  { onLeader, onNews, onOutage, signal }: LeadWait,
): Promise<ServerLock> {
  return takeServerLock(() => lockClient(url, 'sluice replica'), {
    patienceMs: Number.POSITIVE_INFINITY,
    onNews,
    onOutage,
    signal,
    whileWaiting: async client => onLeader(await readLeader(client)),
  });
}

/** Reports each reason of an outage once. */
function outagesFor(report: (reason: string | undefined) => void) {
  const reasons = new Set<string>();
  return {
    note(error: unknown): void {
      const fault = startFaultOf(error);
      const reason = fault instanceof Error ? fault.message : String(fault);
      if (!reasons.has(reason)) report(reason);
      reasons.add(reason);
    },
    /** Returns what the database has answered. */
    end<T>(result?: T): T | undefined {
      if (reasons.size > 0) report(undefined);
      reasons.clear();
      return result;
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
