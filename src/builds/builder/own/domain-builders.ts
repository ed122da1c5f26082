import { existsSync } from 'node:fs';
import { mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { Logger } from '../../../foundation/telemetry/index.ts';
import { rememberSuccess } from '../../../foundation/work.ts';
import { type CallerKind, domainLabel, type TrustDomain } from '../../domain.ts';
import { nameControlGroup } from '../contained/control-group.ts';
import { noteLeftovers, removeNoted } from '../contained/leftovers.ts';
import type { IsBusy } from '../found-builder.ts';
import type { OwnBuilder } from './builder-process.ts';
import { alonePrefix, clearStates, domainPrefix, makeStateRoom } from './domain-states.ts';

/** How a builder of a domain starts. */
export interface DomainStart {
  /** Directory for its state. */
  readonly directory: string;
  /** False where a contained start has just failed: a builder without its own network replaces it. */
  readonly mayContain: boolean;
  /** The control group of the builders of all domains. */
  readonly together: string;
  readonly callerKind: CallerKind;
}

export interface DomainBuildersOptions {
  /** Directory of the states of all domains. */
  readonly directory: string;
  /** Starts a builder; returns undefined where that is not possible. */
  readonly start: (start: DomainStart) => Promise<OwnBuilder | undefined>;
  /** Called after a failed start. */
  readonly onFailure: (error: unknown) => void;
  /** Maximum number of builders that run without a build. */
  readonly maxIdle: number;
  /** How long a builder without builds keeps running (ms). */
  readonly idleMs: number;
  /** Disk space of all states together; half of it while no build runs. */
  readonly stateBytes: number;
  /** Time before a failed contained start is repeated (ms). It doubles each time, up to an hour. */
  readonly retryMs?: number | undefined;
  readonly log: Logger;
}

/** The builders that this server starts: one for each trust domain, while it has builds and for a short time after. */
export interface DomainBuilders {
  /**
   * Returns the builder of a domain, and starts it if it does not run; undefined where none can be started. A builder
   * whose contained start failed is replaced by an uncontained one, which builds for known callers; the contained start
   * is tried again later.
   */
  get(domain: TrustDomain, isBusy: IsBusy): Promise<OwnBuilder | undefined>;
  /** Returns how the last start ended; undefined before the first one has. */
  lastStart(): 'failed' | Pick<OwnBuilder, 'isContained'> | undefined;
  /** Ends the builder of one build, and removes its state. */
  end(domain: TrustDomain): Promise<void>;
  close(): Promise<void>;
}

interface Place {
  readonly name: string;
  readonly directory: string;
  readonly isAlone: boolean;
  readonly builder: Promise<OwnBuilder | undefined>;
  /** Known once it has started. */
  running?: OwnBuilder | undefined;
  /** Builds that are about to get it. */
  wanted: number;
  usedAt: number;
}

const usualRetryMs = 2 * 60_000;
const longestRetryMs = 3_600_000;
const lookMs = 5000;
// A build that has just found its builder is not counted yet.
const graceMs = 1000;

/** Makes the pool of builders. Removes the states that builds of their own have left. */
export function createDomainBuilders(options: DomainBuildersOptions): DomainBuilders {
  const { directory, onFailure, maxIdle, idleMs, stateBytes, log } = options;
  const together = nameControlGroup();
  const places = new Map<string, Place>();
  // By directory: the next builder of a domain uses the same state.
  const leaving = new Map<string, Promise<void>>();
  let retryMs = options.retryMs ?? usualRetryMs;
  let containAt = 0;
  let isBusy: IsBusy = () => false;
  let isClosed = false;
  let last: ReturnType<DomainBuilders['lastStart']>;

  const { get: prepared, begun } = rememberSuccess(async () => {
    await clearStates(directory, log);
    await mkdir(directory, { recursive: true });
    await noteLeftovers(directory, { group: together });
  });

  // What builds with secrets have left does not wait for the next build.
  if (existsSync(directory)) {
    prepared().catch(err =>
      log.warn(
        { err },
        'cannot remove what the builders of the last server left behind: the next build tries again',
      ),
    );
  }

  const start = async (place: string, callerKind: CallerKind): Promise<OwnBuilder | undefined> => {
    const mayContain = performance.now() >= containAt;
    try {
      await prepared();
      const builder = await options.start({ directory: place, mayContain, together, callerKind });
      if (builder?.mayContainLater && mayContain) {
        containAt = performance.now() + retryMs;
        log.warn({ nextTryMs: retryMs }, 'the contained builder does not start');
        retryMs = Math.min(2 * retryMs, longestRetryMs);
      }
      if (builder?.isContained) retryMs = options.retryMs ?? usualRetryMs;
      return builder;
    } catch (error) {
      onFailure(error);
      return undefined;
    }
  };

  const stop = async ({ builder, isAlone, directory: state }: Place): Promise<void> => {
    const running = await builder;
    await running
      ?.stop()
      .catch(err =>
        log.warn({ err }, 'a builder did not stop as it should: its process may still run'),
      );
    if (isAlone) await rm(state, { recursive: true, force: true });
  };

  const leave = (place: Place): Promise<void> => {
    if (places.get(place.name) === place) places.delete(place.name);
    const left = stop(place)
      .catch(err => log.warn({ err }, 'the state of a builder cannot be removed'))
      .finally(() => leaving.delete(place.directory));
    leaving.set(place.directory, left);
    return left;
  };

  const isUsable = async (builder: OwnBuilder): Promise<boolean> => {
    if (builder.hasEnded() || !(await builder.isWhole())) return false;
    const mayImprove = builder.mayContainLater && performance.now() >= containAt;
    return !mayImprove || isBusy(builder.address);
  };

  /** Ends the builders that were not used for long, and the longest unused ones of too many. */
  const endIdle = (): void => {
    const now = performance.now();
    const idle: Place[] = [];
    for (const place of places.values()) {
      const { running } = place;
      if (running && (place.wanted > 0 || isBusy(running.address))) place.usedAt = now;
      else if (running && now - place.usedAt >= graceMs) idle.push(place);
    }
    idle.sort((one, other) => one.usedAt - other.usedAt);
    for (const [position, place] of idle.entries()) {
      if (now - place.usedAt >= idleMs || position < idle.length - maxIdle) leave(place);
    }
  };
  const timer = setInterval(endIdle, Math.min(lookMs, Math.max(idleMs, 50))).unref();

  /** Removes states and prunes builders, so that a build finds room on the disk. */
  const makeRoom = async (own: OwnBuilder): Promise<void> => {
    const live = new Map<string, OwnBuilder | undefined>();
    for (const state of leaving.keys()) live.set(state, undefined);
    for (const one of places.values()) live.set(one.directory, one.running);
    await makeStateRoom({ directory, live, stateBytes, log });
    await own.refresh();
  };

  const begin = (name: string, { isAlone, callerKind }: TrustDomain): Place => {
    const state = join(directory, name);
    const builder = Promise.resolve(leaving.get(state)).then(() => start(state, callerKind));
    const place: Place = {
      name,
      isAlone,
      directory: state,
      builder,
      wanted: 0,
      usedAt: performance.now(),
    };
    places.set(name, place);
    builder.then(running => {
      place.running = running;
      last = running ? { isContained: running.isContained } : 'failed';
      // The next build tries again.
      if (!running && places.get(name) === place) places.delete(name);
    });
    return place;
  };

  /** Does something with a place, which is not idle meanwhile. */
  const hold = async <T>(place: Place, work: () => Promise<T>): Promise<T> => {
    place.wanted += 1;
    try {
      return await work();
    } finally {
      place.wanted -= 1;
      place.usedAt = performance.now();
    }
  };

  /** Ends the builder of a place if it cannot go on. */
  const refresh = (place: Place): Promise<void> =>
    hold(place, async () => {
      const builder = await place.builder;
      if (builder && (await isUsable(builder))) return;
      if (places.get(place.name) === place) await leave(place);
    });

  const get = async (domain: TrustDomain): Promise<OwnBuilder | undefined> => {
    const name = placeName(domain);
    const known = places.get(name);
    if (known) await refresh(known);
    if (isClosed) return undefined;
    const place = places.get(name) ?? begin(name, domain);
    return hold(place, async () => {
      const builder = await place.builder;
      if (!builder || isClosed) return undefined;
      await makeRoom(builder).catch(err =>
        log.warn({ err }, 'the free space on the disk of the builder is unknown'),
      );
      return builder;
    });
  };

  return {
    async get(domain, busy) {
      isBusy = busy;
      if (isClosed) return undefined;
      endIdle();
      return get(domain);
    },

    lastStart: () => last,

    async end(domain) {
      const place = places.get(placeName(domain));
      if (place) await leave(place);
    },

    async close() {
      isClosed = true;
      clearInterval(timer);
      for (const place of [...places.values()]) leave(place);
      await Promise.all(leaving.values());
      const preparing = begun();
      if (!preparing) return;
      await preparing.catch(() => {});
      await removeNoted(directory, together, log);
    },
  };
}

function placeName(domain: TrustDomain): string {
  return `${domain.isAlone ? alonePrefix : domainPrefix}${domainLabel(domain)}`;
}
