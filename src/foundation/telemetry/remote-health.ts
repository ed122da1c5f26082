import { boundedCache } from '../bounded-cache.ts';
import { bucketOf, quantile } from './time-buckets.ts';

export type RemoteKind = 'registry' | 'builder' | 'platform';

/** What is known about another host. Times are ms since the epoch. */
export interface RemoteState {
  readonly kind: RemoteKind;
  readonly name: string;
  readonly succeededAt: number | undefined;
  readonly failedAt: number | undefined;
  /** The sentence of the last failure. */
  readonly failure: string | undefined;
  /** Requests of the last hour, rounded up to ten minutes. */
  readonly requests: number;
  readonly failures: number;
  /** Median time of the successful ones (ms); undefined without any. */
  readonly medianMs: number | undefined;
  /** Requests since the host was first used, or used again after a long time. */
  readonly total: { readonly successes: number; readonly failures: number };
}

/** Remembers how other hosts answered lately, in bounded memory: callers may name any number of hosts. */
export interface RemoteHealth {
  success(kind: RemoteKind, name: string, ms: number): void;
  /** @param sentence shown to operators: without secrets */
  failure(kind: RemoteKind, name: string, sentence: string): void;
  /** Returns the hosts, the most recently used first. */
  list(): readonly RemoteState[];
}

const mostRemotes = 300;
const slotMs = 600_000;
const slots = 7;
const mostWords = 400;
// A host name has at most 253 characters, a socket's path 108.
const longestName = 300;

interface Slot {
  number: number;
  requests: number;
  failures: number;
  /** Successful requests by the bucket of their time. */
  readonly times: Map<number, number>;
}

interface Remote {
  readonly kind: RemoteKind;
  readonly name: string;
  readonly slots: Slot[];
  readonly total: { successes: number; failures: number };
  succeededAt?: number;
  failedAt?: number;
  failure?: string;
}

/** For commands and tests, which remember nothing. */
export const noRemoteHealth: RemoteHealth = { success() {}, failure() {}, list: () => [] };

export function createRemoteHealth(now: () => number = Date.now): RemoteHealth {
  const remotes = boundedCache<string, Remote>(mostRemotes);

  const slotOf = (remote: Remote): Slot => {
    const number = Math.floor(now() / slotMs);
    const at = number % slots;
    const slot = remote.slots[at];
    if (slot?.number === number) return slot;
    const fresh: Slot = { number, requests: 0, failures: 0, times: new Map() };
    remote.slots[at] = fresh;
    return fresh;
  };
  const remoteOf = (kind: RemoteKind, name: string): Remote => {
    const key = `${kind} ${name}`;
    const remote = remotes.get(key) ?? {
      ...{ kind, name: name.slice(0, longestName), slots: [] },
      total: { successes: 0, failures: 0 },
    };
    remotes.set(key, remote);
    return remote;
  };

  return {
    success(kind, name, ms) {
      const remote = remoteOf(kind, name);
      remote.succeededAt = now();
      remote.total.successes += 1;
      const slot = slotOf(remote);
      slot.requests += 1;
      const bucket = bucketOf(ms);
      slot.times.set(bucket, (slot.times.get(bucket) ?? 0) + 1);
    },

    failure(kind, name, sentence) {
      const remote = remoteOf(kind, name);
      remote.failedAt = now();
      remote.total.failures += 1;
      remote.failure = sentence.slice(0, mostWords);
      const slot = slotOf(remote);
      slot.requests += 1;
      slot.failures += 1;
    },

    list() {
      const since = Math.floor(now() / slotMs) - slots + 1;
      return [...remotes.values()].map(({ kind, name, slots: all, total, ...last }) => {
        const recent = all.filter(slot => slot !== undefined && slot.number >= since);
        const times = new Map<number, number>();
        for (const slot of recent) {
          for (const [bucket, count] of slot.times) {
            times.set(bucket, (times.get(bucket) ?? 0) + count);
          }
        }
        const { succeededAt, failedAt, failure } = last;
        return {
          ...{ kind, name, succeededAt, failedAt, failure },
          requests: recent.reduce((sum, { requests }) => sum + requests, 0),
          failures: recent.reduce((sum, { failures }) => sum + failures, 0),
          medianMs: quantile(times, 0.5),
          total: { ...total },
        };
      });
    },
  };
}
