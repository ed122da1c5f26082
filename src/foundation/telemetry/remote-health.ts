import type { LRUCache } from 'lru-cache';
import { boundedCache } from '../bounded-cache.ts';
import { bucketOf, quantile } from './time-buckets.ts';

export type RemoteKind = 'registry' | 'builder' | 'platform';

/** What is known about another host. Times are ms since the epoch. */
export interface RemoteState {
  readonly kind: RemoteKind;
  readonly name: string;
  readonly succeededAt: number | undefined;
  readonly failedAt: number | undefined;
  /** True when the last request failed, whatever the clock says. */
  readonly isFailing: boolean;
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
  /** Returns the hosts: those of the configuration first, and then those with the most successes. */
  list(): readonly RemoteState[];
}

// Callers may name hosts that have never answered. They take no place of those that have.
const mostResponding = 300;
const mostSilent = 100;
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
  isFailing: boolean;
  succeededAt?: number;
  failedAt?: number;
  failure?: string;
}

/** For commands and tests, which remember nothing. */
export const noRemoteHealth: RemoteHealth = { success() {}, failure() {}, list: () => [] };

export interface RemoteHealthOptions {
  /** Names of the registries of the configuration: other ones never take their places. */
  readonly registries?: readonly string[];
  readonly now?: () => number;
}

export function createRemoteHealth({
  registries = [],
  now = Date.now,
}: RemoteHealthOptions = {}): RemoteHealth {
  const configured = new Set(registries);
  const own = new Map<string, Remote>();
  const places = {
    registry: placesOf(),
    builder: placesOf(),
    platform: placesOf(),
  } satisfies Record<RemoteKind, Places>;

  const slotOf = (remote: Remote): Slot => {
    const number = Math.floor(now() / slotMs);
    const at = number % slots;
    const slot = remote.slots[at];
    if (slot?.number === number) return slot;
    const fresh: Slot = { number, requests: 0, failures: 0, times: new Map() };
    remote.slots[at] = fresh;
    return fresh;
  };
  const remoteOf = (kind: RemoteKind, given: string, isResponse: boolean): Remote => {
    const name = given.slice(0, longestName);
    const { responding, silent } = places[kind];
    const fresh = () => newRemote(kind, name);
    if (kind === 'registry' && configured.has(name)) {
      const remote = own.get(name) ?? fresh();
      own.set(name, remote);
      return remote;
    }
    const remote = responding.get(name) ?? silent.get(name) ?? fresh();
    const isResponding = isResponse || remote.succeededAt !== undefined;
    (isResponding ? responding : silent).set(name, remote);
    if (isResponding) silent.delete(name);
    return remote;
  };

  return {
    success(kind, name, ms) {
      const remote = remoteOf(kind, name, true);
      remote.succeededAt = now();
      remote.isFailing = false;
      remote.total.successes += 1;
      const slot = slotOf(remote);
      slot.requests += 1;
      const bucket = bucketOf(ms);
      slot.times.set(bucket, (slot.times.get(bucket) ?? 0) + 1);
    },

    failure(kind, name, sentence) {
      const remote = remoteOf(kind, name, false);
      remote.failedAt = now();
      remote.isFailing = true;
      remote.total.failures += 1;
      remote.failure = sentence.slice(0, mostWords);
      const slot = slotOf(remote);
      slot.requests += 1;
      slot.failures += 1;
    },

    list() {
      const last = Math.floor(now() / slotMs);
      const others = Object.values(places)
        .flatMap(({ responding, silent }) => [...responding.values(), ...silent.values()])
        .sort((one, other) => other.total.successes - one.total.successes);
      return [...own.values(), ...others].map(({ slots: all, total, ...remote }) => {
        // After the clock was set back, there are slots of the future.
        const recent = all.filter(
          slot => slot !== undefined && slot.number > last - slots && slot.number <= last,
        );
        const times = new Map<number, number>();
        for (const slot of recent) {
          for (const [bucket, count] of slot.times) {
            times.set(bucket, (times.get(bucket) ?? 0) + count);
          }
        }
        const { succeededAt, failedAt, failure } = remote;
        return {
          ...remote,
          succeededAt,
          failedAt,
          failure,
          requests: recent.reduce((sum, { requests }) => sum + requests, 0),
          failures: recent.reduce((sum, { failures }) => sum + failures, 0),
          medianMs: quantile(times, 0.5),
          total: { ...total },
        };
      });
    },
  };
}

/** Hosts of one kind, the least recently used of which are forgotten. */
interface Places {
  readonly responding: LRUCache<string, Remote>;
  readonly silent: LRUCache<string, Remote>;
}

function placesOf(): Places {
  return { responding: boundedCache(mostResponding), silent: boundedCache(mostSilent) };
}

function newRemote(kind: RemoteKind, name: string): Remote {
  const total = { successes: 0, failures: 0 };
  return { kind, name, slots: [], total, isFailing: false };
}
