import { setTimeout as sleep } from 'node:timers/promises';
import type pg from 'pg';
import { outagesFor } from './lock-faults.ts';
import {
  databaseTimeOf,
  type Leader,
  type LockSession,
  listenForLead,
  lockClient,
  nameSession,
  openLockSession,
  readLeader,
  replicaName,
} from './lock-session.ts';
import { compareSchema } from './postgres-schema.ts';
import { lateReplica, olderReplica, type ReplicaSelf } from './replica-list.ts';
import { type LockNews, type ServerLock, takeServerLock } from './server-lock.ts';

const pauseMs = 500;
// The clocks of machines with NTP differ by less than a second. With more, names would end too early or too late.
const longestDifferenceMs = 10 * 60_000;
// A replica that follows judges tokens of the leader, which end after minutes, by its own clock.
const closeMs = 10_000;

export interface LeadWait {
  /** Called each half second with the replica that leads now; undefined while nobody does. */
  readonly onLeader: (leader: Leader | undefined) => void;
  /** Called each half second: true when the rows have the schema of this version, and the clock is close to that of the database. */
  readonly onReadable?: (isReadable: boolean) => void;
  readonly onNews: (news: LockNews) => void;
  /** Called when the leader hands the lead over. It still finishes its transfers. */
  readonly onHandOver: () => void;
  /** Called about once a second when this replica leads, and another one is chosen to lead next. */
  readonly onReplaced?: () => void;
  /** What the list of replicas says of this one. */
  readonly self?: ReplicaSelf;
  /** Called when the clock of this machine begins to differ from that of the database: by so much (ms). 0: it fits again. */
  readonly onWrongClock: (aheadMs: number) => void;
  /** Called when a newer version has changed the schema of the rows. False: they have that of this version again, or an older one. */
  readonly onNewerSchema?: (isNewer: boolean) => void;
  /** ms since the epoch */
  readonly now?: () => number;
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
  {
    onLeader,
    onReadable,
    onWrongClock,
    onNewerSchema = () => {},
    now = Date.now,
    ...wait
  }: LeadWait,
): Promise<ServerLock> {
  let isWrong = false;
  let isNewer = false;
  let isReadable = false;
  return takeServerLock(() => lockClient(url, replicaName), {
    patienceMs: Number.POSITIVE_INFINITY,
    ...wait,
    async mayTake(client) {
      const { aheadMs, schema, ...fit } = await compareWith(client, now);
      const [wasWrong, wasNewer] = [isWrong, isNewer];
      isWrong = Math.abs(aheadMs) > longestDifferenceMs;
      isNewer = schema === 'newer';
      isReadable = fit.isReadable;
      const hindered = isWrong ? lateReplica : isNewer ? olderReplica : undefined;
      // No leader hands its lead over to such a replica.
      if (hindered ?? (wasWrong || wasNewer)) await nameSession(client, hindered ?? replicaName);
      if (isWrong !== wasWrong) onWrongClock(isWrong ? aheadMs : 0);
      if (isNewer !== wasNewer) onNewerSchema(isNewer);
      return hindered === undefined;
    },
    async whileWaiting(client) {
      onReadable?.(isReadable);
      onLeader(await readLeader(client));
    },
  });
}

/** Compares this replica with the database. */
async function compareWith(client: pg.ClientBase, now: () => number) {
  const aheadMs = now() - (await databaseTimeOf(client));
  const schema = await compareSchema(client);
  return { aheadMs, schema, isReadable: schema === 'own' && Math.abs(aheadMs) <= closeMs };
}

/** What a replica that stops hears until its end. */
export interface LeadWatch
  extends Pick<LeadWait, 'onLeader' | 'onReadable' | 'onHandOver' | 'onOutage' | 'now'> {
  /** Called when it first hears who leads. */
  readonly onHeard?: () => void;
  readonly signal: AbortSignal;
}

/**
 * Calls the listeners as {@link awaitLead} does, until the signal ends it, and never takes the lock: a replica that stops
 * hands requests on until then.
 */
export async function watchLead(
  url: string,
  {
    onLeader,
    onReadable,
    onHandOver,
    onOutage,
    onHeard = () => {},
    now = Date.now,
    signal,
  }: LeadWatch,
): Promise<void> {
  const outages = outagesFor(onOutage);
  while (!signal.aborted) {
    let session: LockSession | undefined;
    try {
      session = await openLockSession(() => lockClient(url, 'sluice replica that stops'));
      const news = await listenForLead(session.client, onHandOver);
      while (!signal.aborted) {
        onReadable?.((await compareWith(session.client, now)).isReadable);
        onLeader(await readLeader(session.client));
        onHeard();
        outages.end();
        await news.wait(pauseMs, signal);
      }
    } catch (error) {
      if (!signal.aborted) outages.note(error);
    }
    void session?.client.end().catch(() => {});
    await sleep(pauseMs, undefined, { signal, ref: false }).catch(() => {});
  }
}
