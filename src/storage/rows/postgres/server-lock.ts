import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type pg from 'pg';
import { boundedCache } from '../../../foundation/bounded-cache.ts';
import type { Fault } from '../../../foundation/fault.ts';
import {
  notHeld,
  outagesFor,
  silentDatabase,
  takenByLeader,
  takenByOther,
  usedByOther,
} from './lock-faults.ts';
import {
  type Beat,
  claimLock,
  fenceOf,
  type Heartbeat,
  handOverLock,
  hasWaitingReplica,
  holdersOf,
  isClaimedBy,
  type Leader,
  type LeadNews,
  type LockSession,
  listenForLead,
  openLockSession,
  tryServerLock,
  untilSilent,
  usualHeartbeat,
  writeLeader,
} from './lock-session.ts';
import { isUnavailable, startFaultOf } from './postgres-connection.ts';
import {
  chooseNewest,
  chosenReplica,
  endChoice,
  enterReplica,
  type ReplicaSelf,
  unheardReplicas,
} from './replica-list.ts';

/** The lock of the server that uses the database. It ends with its connection, and is taken again. */
export interface ServerLock {
  /** Throws a {@link Fault} (503) while this server does not have the lock. */
  require(): void;
  /** False while another server may have the lock. */
  readonly isHeld: boolean;
  /** True from the moment when the database is late with a response to the connection of the lock, until it responds. */
  readonly isSilent: boolean;
  /** Calls the listener when {@link isSilent} begins while another replica waits for the lead. */
  onSilence(listener: () => void): void;
  /** True when another replica waited for the lock at the last response of the database. */
  readonly hadSuccessor: boolean;
  /** True when another server took the lock, or may take it after a hand-over. This server does not take it again. */
  readonly isTaken: boolean;
  /** Statements that each transaction begins with. They fail when another server has taken the lock. */
  readonly fence: string;
  /** Notes that another server has taken the lock, which a failed fence proves. Returns the fault (503) of the change. */
  noteTaken(): Fault;
  /**
   * Writes where the other replicas reach this server. They see it while this server has the lock: after a lost connection
   * it is written again. Returns undefined when that fails now.
   */
  announce(leader: Leader): Promise<Announced | undefined>;
  /** Returns true when another replica waits for the lock. */
  hasSuccessor(): Promise<boolean>;
  /** Releases the lock for another replica, at once. This server changes nothing from now on, and never leads again. */
  handOver(): Promise<void>;
  release(): Promise<void>;
}

/** A lead that the database knows. */
export interface Announced {
  /** When the lead began, by the clock of the database (ms since the epoch). */
  readonly time: number;
  /** Addresses of replicas that may not hear from the database who leads. */
  readonly unheard: readonly string[];
}

/** What happened to the lock. `silent`: the database is late with a response. */
export type LockNews = 'silent' | 'lost' | 'held' | 'taken';

const pauseMs = 500;
// PostgreSQL ends the session of a silent host within about 20 seconds. Until then, there are at most two attempts a second.
const mostEnding = 64;

export interface LockWait {
  /** How long another server may have the lock (ms). `Infinity` waits through outages of the database as well. */
  readonly patienceMs: number;
  /** Called when the lock is in doubt, lost, held again, or taken by another server. */
  readonly onNews?: ((news: LockNews) => void) | undefined;
  /** Called with each new reason why the database cannot be asked; undefined when it answers again. */
  readonly onOutage?: (reason: string | undefined) => void;
  /** Called each half second while another server has the lock. */
  readonly whileWaiting?: (client: pg.ClientBase) => Promise<void>;
  /** Called when the server with the lock hands it over. */
  readonly onHandOver?: () => void;
  /** Returns false while this server must not take the lock for the first time. Default: it may. */
  readonly mayTake?: (client: pg.ClientBase) => Promise<boolean>;
  /** What the list of replicas says of this one. Absent for a server that is not a replica. */
  readonly self?: ReplicaSelf;
  /** Called about once a second while another replica is chosen to lead next. */
  readonly onReplaced?: () => void;
  /** Ends the wait. A lock that arrives at that moment is handed over. */
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
    onHandOver,
    mayTake = async () => true,
    self,
    onReplaced = () => {},
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
  let isHandedOver = false;
  let isSilent = false;
  let hadSuccessor = false;
  const silenceListeners: (() => void)[] = [];
  const news = new WeakMap<LockSession, LeadNews>();
  // Sessions in the list of replicas.
  const entered = new WeakSet<pg.ClientBase>();
  const enter = async (client: pg.ClientBase): Promise<void> => {
    if (self && !entered.has(client) && (await enterReplica(client, self))) entered.add(client);
  };
  /** Returns true when another replica is chosen to lead next. */
  const isReplaced = async ({ client, pid }: LockSession): Promise<boolean> => {
    const chosen = entered.has(client) ? await chosenReplica(client) : undefined;
    return chosen !== undefined && chosen !== pid;
  };
  const closing = new AbortController();
  const { signal } = closing;
  const outages = outagesFor(onOutage);
  // PostgreSQL may not know yet that one of these sessions has ended, and may have given it the lock.
  const own = boundedCache<number, true>(mostEnding);

  /** Returns `own` while PostgreSQL keeps the lock for an earlier session of this server. */
  const attempt = async (): Promise<'locked' | 'own' | 'taken'> => {
    const session = waiting ?? (await openLockSession(create));
    waiting = undefined;
    const { client, pid } = session;
    isSilent = false;
    try {
      await enter(client);
      // A server that has led since its start has memory that fits the rows.
      const isAllowed = isClaimed || ((await mayTake(client)) && !(await isReplaced(session)));
      if (isAllowed) own.set(pid, true);
      if (!isAllowed || !(await tryServerLock(client))) {
        own.delete(pid);
        if (!news.has(session)) news.set(session, await listenForLead(client, onHandOver));
        const holders = await holdersOf(client);
        waiting = session;
        return holders.some(holder => !own.has(holder)) ? 'taken' : 'own';
      }
      if (!isClaimed) await claimLock(client, id);
      else if (!(await isClaimedBy(client, id))) {
        // The other one has ended. What it changed is not in the memory of this server.
        client.end().catch(() => {});
        return 'taken';
      }
      isClaimed = true;
      if (leader) await announceAs(client, leader);
      hold(session);
      return 'locked';
    } catch (error) {
      client.end().catch(() => {});
      throw error;
    }
  };

  const announceAs = async (client: pg.ClientBase, given: Leader): Promise<Announced> => {
    await enter(client);
    await endChoice(client);
    const unheard = await unheardReplicas(client, given.keys);
    return { unheard, time: await writeLeader(client, given) };
  };

  const hold = (session: LockSession): void => {
    held = session;
    const ask = async (): Promise<Beat> => ({
      hasSuccessor: await hasWaitingReplica(session.client),
      isReplaced: await isReplaced(session),
    });
    const silent = untilSilent(ask, heartbeat, {
      onDoubt() {
        if (held !== session) return;
        isSilent = true;
        onNews('silent');
        // Where no other replica can lead, what has begun waits: the database may only be slow.
        if (hadSuccessor) for (const listener of silenceListeners) listener();
      },
      onResponse(beat) {
        if (held !== session) return;
        hadSuccessor = beat.hasSuccessor;
        if (beat.isReplaced) onReplaced();
        if (!isSilent) return;
        isSilent = false;
        onNews('held');
      },
    });
    void Promise.race([session.isEnded, silent]).then(() => lost(session));
  };

  const drop = async (): Promise<void> => {
    const sessions = [held, waiting];
    held = undefined;
    waiting = undefined;
    await Promise.all(sessions.map(session => session?.client.end().catch(() => {})));
  };

  const taken = () => (leader ? takenByLeader() : takenByOther());

  const noteTaken = (): Fault => {
    if (!isTaken && !isHandedOver) {
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
      const heard = waiting && news.get(waiting);
      await (heard?.wait(pauseMs, cancelled) ?? sleep(pauseMs, undefined, { signal: cancelled }));
    }
    outages.end();
  } catch (error) {
    closing.abort();
    await drop();
    throw error;
  }

  const lock: ServerLock = {
    require() {
      if (isTaken || isHandedOver) throw taken();
      if (isSilent) throw silentDatabase();
      if (held === undefined) throw notHeld();
    },
    get isHeld() {
      return held !== undefined && !isSilent;
    },
    get isSilent() {
      return isSilent;
    },
    onSilence: listener => void silenceListeners.push(listener),
    get hadSuccessor() {
      return hadSuccessor;
    },
    get isTaken() {
      return isTaken || isHandedOver;
    },
    fence: fenceOf(id),
    noteTaken,
    async announce(given) {
      leader = given;
      // Without the lock at this moment, it is written as soon as the lock is held again.
      const client = held?.client;
      // A break at this moment, too: the session ends, and with it this hold of the lock.
      const written = client && announceAs(client, given);
      return written?.catch(() => {
        client?.end().catch(() => {});
        return undefined;
      });
    },
    async hasSuccessor() {
      const client = held?.client;
      return client !== undefined && (await hasWaitingReplica(client).catch(() => false));
    },
    async handOver() {
      isHandedOver = true;
      closing.abort();
      const client = held?.client;
      const handed =
        client &&
        chooseNewest(client)
          .catch(() => {})
          .then(() => handOverLock(client))
          .catch(() => {});
      await Promise.race([handed, sleep(pauseMs, undefined, { ref: false })]);
      // Without a response, the end of the connection releases the lock.
      await Promise.race([drop(), sleep(pauseMs, undefined, { ref: false })]);
    },
    async release() {
      closing.abort();
      // A network that lost the connection gives no response.
      await Promise.race([drop(), sleep(pauseMs, undefined, { ref: false })]);
    },
  };
  if (cancelled?.aborted) {
    await lock.handOver();
    throw cancelled.reason;
  }
  return lock;
}
