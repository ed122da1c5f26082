import { hkdfSync } from 'node:crypto';
import { existsSync } from 'node:fs';
import type { ServerResponse } from 'node:http';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { sendUnsent, unsentIn } from '../../builds/index.ts';
import { readVersion } from '../../foundation/version.ts';
import { atMost } from '../../foundation/work.ts';
import { admitHandedOn, handedOnHeaders } from '../../http/index.ts';
import type { TakePulls } from '../../http/registry/index.ts';
import { readKeyFile } from '../../storage/directory/index.ts';
import { isDirectory, openNamedObjects } from '../../storage/index.ts';
import {
  awaitLead,
  type Leader,
  type ServerLock,
  watchLead,
} from '../../storage/rows/postgres/index.ts';
import type { UpstreamDeps } from '../assembly/registry-clients.ts';
import { logLock } from '../assembly/server-state.ts';
import { ConfigError, type ReplicaSettings } from '../config/index.ts';
import type { Entry } from '../entries.ts';
import { createChanges } from './changes.ts';
import { createCurrentLeader } from './current-leader.ts';
import { createFollower, type Follower } from './follower.ts';
import { accepted, createLeadNews, type HeardLead, refused } from './lead-news.ts';
import { createPullReceiver } from './pull-receiver.ts';

/** One of several servers of a site: first it follows, then it leads. */
export interface Replica extends Follower {
  /**
   * Follows until this replica has the lock that makes it the leader, or until it stops. Calls `onFollow` once, when it
   * knows whom to follow. Returns false when it has the lock. One that stops follows until `close`, and no longer waits for
   * the lock.
   *
   * @throws {@link ConfigError} when the leader uses other keys
   */
  follow(stopping: Promise<unknown>, onFollow: (leader: URL) => void): Promise<boolean>;
  /** The lock that makes this replica the leader. Rejects when it stops first. */
  readonly lock: Promise<ServerLock>;
  /** Lets the other replicas know that this one leads, and sends it the waiting requests. */
  lead(work: LeaderWork): Promise<void>;
  /**
   * Gives up the lead if another replica waits for it: new requests go to the next leader, changes in progress have a
   * second, and running transfers continue. If none waits, the first one that does gets the lead until {@link keepLead}.
   * Does nothing before {@link lead}, and when it has been given up. Never rejects.
   */
  giveUpLead(): Promise<void>;
  /** Gives the lead to no other replica from now on, before this one closes. Waits for a handover that has begun. */
  keepLead(): Promise<void>;
  /** Resolves when another replica has taken the lock from this one, or got it as the operator wanted. */
  readonly lost: Promise<'lost' | 'moved'>;
  /** Returns the entry for clients and for other replicas. */
  admit(entry: Entry): Entry;
}

/** What a replica does while it leads. */
export interface LeaderWork {
  /** Leads later requests to the entry of a follower. */
  readonly follow: (entry: Entry) => void;
  /** Counts pulls that another replica answers. */
  readonly takePulls: TakePulls;
  /** Stops the work of a leader, and writes what is only in memory. */
  readonly release: () => Promise<void>;
}

/**
 * Starts to follow the replica that leads.
 *
 * @throws {@link ConfigError} when a key is missing
 */
export async function startReplica(
  deps: UpstreamDeps,
  { address, keys: directory, database }: ReplicaSettings,
): Promise<Replica> {
  const { log } = deps;
  const keys = readReplicaKeys(directory);
  const leader = createCurrentLeader();
  const follower = createFollower(deps, leader, keys.proof);
  const known = Promise.withResolvers<URL>();
  const foreignKeys = Promise.withResolvers<never>();
  const lost = Promise.withResolvers<'lost' | 'moved'>();
  const closing = new AbortController();
  /** Ends the wait for the lock. */
  const waiting = new AbortController();
  /** Ends the offer of the lead to other replicas. */
  const offering = new AbortController();
  const changes = createChanges();
  let leading: LeaderWork | undefined;
  /** True from the moment when another replica says that it leads, while this one cannot ask the database. */
  let isReplaced = false;
  let givingUp: Promise<boolean> | undefined;
  const news = createLeadNews(keys.news, address);
  /** When the last lead began of which another replica sent news. */
  let heardLeadAt = 0;

  const onLeader = (found: Leader | undefined): void => {
    if (found && found.keys !== keys.name) {
      foreignKeys.reject(otherKeys(directory));
      return;
    }
    const next = found && new URL(found.address);
    if (next && next.href !== leader.address?.href) {
      log.info({ leader: next.origin }, 'this replica hands requests on to the leader');
    }
    leader.set(next);
    if (next) known.resolve(next);
  };
  const onOutage = (reason: string | undefined): void => {
    if (reason === undefined) log.info('the database answers this replica again');
    else log.warn({ reason }, 'cannot ask the database who leads: this replica tries again');
  };
  const hindrances: { clock?: string | undefined; schema?: string | undefined } = {};
  const noteHindrances = (added: string | undefined): void => {
    if (added !== undefined) log.error(added);
    const reason = hindrances.clock ?? hindrances.schema;
    if (reason === undefined) log.info('this replica may lead');
    follower.hinder(reason);
  };
  const lock = awaitLead(database, {
    onLeader,
    onHandOver: leader.handOver,
    onReadable: follower.noteReadable,
    onWrongClock(aheadMs) {
      hindrances.clock = aheadMs === 0 ? undefined : wrongClock(aheadMs);
      if (hindrances.clock === undefined) log.info('the clock fits that of the database');
      noteHindrances(hindrances.clock);
    },
    onNewerSchema(isNewer) {
      hindrances.schema = isNewer ? olderVersion() : undefined;
      noteHindrances(hindrances.schema);
    },
    onOutage,
    onReplaced() {
      if (!leading || givingUp || offering.signal.aborted) return;
      log.info('the operator wants another replica to lead: this one gives up the lead');
      void giveUpLead().then(
        isGivenUp => {
          if (isGivenUp) lost.resolve('moved');
        },
        err => {
          log.error({ err }, 'the lead cannot be handed over');
          // It has stopped its work, and only a start gives it a role again.
          if (!leading) lost.resolve('moved');
        },
      );
    },
    self: { address: address.href, version: readVersion().version },
    signal: waiting.signal,
    onNews(event) {
      // It has stopped the work of a leader.
      if (event !== 'taken' && !(isReplaced && event === 'held')) return logLock(log, event);
      log.error('another replica leads now: this one ends, and follows when it is started again');
      lost.resolve('lost');
    },
  });
  for (const promise of [lock, foreignKeys.promise]) promise.catch(() => {});
  void sendLeftLogs(deps, closing.signal).catch(err =>
    log.warn({ err }, 'logs of ended builds cannot be sent to the object store'),
  );

  /** Goes on to follow until `close`, without a wait for the lock. */
  const watch = (onHeard?: () => void): void => {
    void watchLead(database, {
      onLeader,
      onOutage,
      signal: closing.signal,
      onReadable: follower.noteReadable,
      onHandOver: leader.handOver,
      ...(onHeard ? { onHeard } : {}),
    });
  };
  /** Ends the wait for the lock: nobody would lead while this replica has it. Never rejects. */
  const stopWaiting = async (): Promise<void> => {
    const heard = Promise.withResolvers<void>();
    watch(heard.resolve);
    // It misses no news of a handover meanwhile.
    await atMost(hearMs, heard.promise);
    waiting.abort(new Error('the replica stops'));
    // It may have arrived at this moment.
    await lock.then(
      held => held.handOver(),
      () => {},
    );
  };

  const ledBy = (next: URL): void => {
    if (leader.address?.href !== next.href) leader.handOver();
    leader.set(next);
  };
  const stopLeading = async ({ release }: LeaderWork): Promise<void> => {
    await atMost(changesMs, changes.settled());
    await atMost(releaseMs, release()).catch(err =>
      log.warn({ err }, 'some figures of this replica are lost with its lead'),
    );
  };

  const handLeadOn = async (): Promise<boolean> => {
    if (!leading) return false;
    const work = leading;
    const held = await lock;
    let hasSuccessor = false;
    const asked = held.hasSuccessor().then(is => {
      hasSuccessor = is;
    });
    // A database that does not answer hands the lead over by itself, when it notices that this one has gone.
    if (!(await atMost(successorMs, asked)) || !hasSuccessor) return false;
    // Another replica may have said meanwhile that it leads, or this one closes.
    if (leading !== work || offering.signal.aborted) return false;
    const began = performance.now();
    // Requests wait from now on.
    leading = undefined;
    leader.handOver();
    work.follow(entryOf(follower.entry));
    await stopLeading(work);
    await held.handOver();
    watch();
    log.info(
      { ms: Math.round(performance.now() - began) },
      'another replica takes the lead: this one finishes its transfers',
    );
    return true;
  };

  /** Returns false when no other replica waits for the lead. A signal and the operator may want it at once. */
  const giveUpLead = (): Promise<boolean> => {
    givingUp ??= handLeadOn().finally(() => {
      givingUp = undefined;
    });
    return givingUp;
  };
  /** Looks for a replica that starts while this one stops. Never rejects. */
  const giveUpLater = async (): Promise<void> => {
    const { signal } = offering;
    while (leading) {
      await sleep(offerMs, undefined, { ref: false, signal }).catch(() => {});
      if (signal.aborted) return;
      await giveUpLead().catch(err => log.error({ err }, 'the lead cannot be handed over'));
    }
  };

  /** Answers another replica that says that it leads. */
  const respondToNews = async (
    { leader: next, time }: HeardLead,
    response: ServerResponse,
  ): Promise<void> => {
    const hasLock = leading !== undefined && (await lock).isHeld;
    response.writeHead(hasLock ? refused : accepted).end();
    // A later leader may have been faster than the one before it.
    if (hasLock || time < heardLeadAt) return;
    heardLeadAt = time;
    if (leading) {
      const work = leading;
      leading = undefined;
      isReplaced = true;
      log.warn(
        { leader: next.origin },
        'another replica leads while this one cannot reach the database: this one hands requests on, and starts again when it reaches the database',
      );
      ledBy(next);
      work.follow(entryOf(follower.entry));
      await stopLeading(work);
    } else {
      // One that follows may be cut off from the database as well. Otherwise, it reads there who leads.
      ledBy(next);
      known.resolve(next);
    }
  };
  const receivePulls = createPullReceiver({ taker: () => leading?.takePulls, changes, log });
  const entryOf = ({ respond, handleUpgrade, refusesBody }: Entry): Entry => ({
    respond(request, response) {
      const heard = news.read(request);
      return heard ? respondToNews(heard, response) : respond(request, response);
    },
    handleUpgrade,
    ...(refusesBody ? { refusesBody } : {}),
  });

  return {
    ...follower,
    entry: entryOf(follower.entry),
    async follow(stopping, onFollow) {
      void known.promise.then(onFollow);
      const stops = stopping.then(() => true);
      const isStopping = await Promise.race([lock.then(() => false), foreignKeys.promise, stops]);
      if (isStopping) void stopWaiting();
      return isStopping;
    },
    lock,
    lost: lost.promise,
    async lead(work) {
      const announced = await (await lock).announce({ address: address.href, keys: keys.name });
      leader.set(address);
      leading = work;
      // It counts the last pulls that it has answered as a follower itself.
      void follower
        .endReads()
        .catch(err => log.warn({ err }, 'cannot close the connections of reads'));
      for (const unheard of announced?.unheard ?? []) {
        if (URL.canParse(unheard))
          void news.tell(new URL(unheard), announced?.time ?? 0, closing.signal);
      }
    },
    async giveUpLead() {
      await giveUpLead();
      void giveUpLater();
    },
    async keepLead() {
      offering.abort();
      await givingUp?.catch(() => {});
    },
    admit: ({ respond, handleUpgrade }) =>
      entryOf({
        respond(request, response) {
          const isOfReplica = admitHandedOn(request, keys.proof);
          if (isOfReplica && request.headers[handedOnHeaders.pulls] !== undefined) {
            return receivePulls(request, response);
          }
          return changes.during(request, respond(request, response));
        },
        handleUpgrade(request, socket, head) {
          admitHandedOn(request, keys.proof);
          return handleUpgrade(request, socket, head);
        },
      }),
    async close() {
      const reason = new Error('the replica stops');
      for (const ended of [closing, waiting, offering]) ended.abort(reason);
      await lock.then(
        held => held.release(),
        () => {},
      );
      await follower.close();
    },
  };
}

function wrongClock(aheadMs: number): string {
  const minutes = Math.round(Math.abs(aheadMs) / 60_000);
  const side = aheadMs > 0 ? 'ahead of' : 'behind';
  return `The clock of this machine is ${minutes} minutes ${side} that of the database, so this replica does not lead: set the time of both machines, such as with NTP`;
}

function olderVersion(): string {
  return `A newer version than this one (${readVersion().version}) has changed the schema of the database, so this replica does not lead: it hands requests on to the leader. Update this replica`;
}

// Writes wait for as long as both, and for the start of the next leader.
const changesMs = 1000;
const releaseMs = 1000;
const hearMs = 500;
const successorMs = 1000;
// A replica that waits for the lead asks twice a second.
const offerMs = 1000;

function otherKeys(directory: string): ConfigError {
  return new ConfigError(
    `The keys in ${directory} are not those of the leading replica: copy its secrets.key and registry-token.key, and start this replica again`,
  );
}

/**
 * Sends the logs of builds that this replica ended while it led, and that the object store did not take before it was
 * killed: nobody else has them, whoever leads now.
 */
async function sendLeftLogs(
  { config, log, proxyFor }: UpstreamDeps,
  signal: AbortSignal,
): Promise<void> {
  const directory = join(config.data, 'logs/builds');
  if (isDirectory(config) || (await unsentIn(directory)).length === 0) return;
  const archive = await openNamedObjects({ ...config, proxyFor }, 'logs/builds');
  try {
    const onError = (err: unknown) =>
      log.warn({ err }, 'logs of ended builds cannot be sent to the object store: trying again');
    await sendUnsent(directory, archive, onError, signal);
  } finally {
    archive.close();
  }
}

/** What replicas derive from the keys that they share. */
interface ReplicaKeys {
  /** Differs for different keys, and does not reveal them. */
  readonly name: string;
  /** With it, a replica proves that it hands on a request. */
  readonly proof: string;
  /** Signs the news of who leads. */
  readonly news: Buffer;
}

const files = ['secrets.key', 'registry-token.key'];
const derivedBytes = 32;

/**
 * Reads the keys in the directory. Does not create any: each replica would have others.
 *
 * @throws {@link ConfigError} when a key is missing
 */
export function readReplicaKeys(directory: string): ReplicaKeys {
  const keys = files.map(file => {
    const path = join(directory, file);
    if (existsSync(path)) return readKeyFile(path);
    throw new ConfigError(
      `${path} is missing, and all replicas need the same one: copy it from the data directory of the site. For a new site, create it once: head -c 32 /dev/urandom > ${file}`,
    );
  });
  const derive = (purpose: string) =>
    Buffer.from(
      hkdfSync('sha256', Buffer.concat(keys), '', `sluice replicas: ${purpose}`, derivedBytes),
    );
  return {
    name: derive('name').toString('hex'),
    proof: derive('proof').toString('base64url'),
    news: derive('news'),
  };
}
