import { randomUUID } from 'node:crypto';
import { BuildError, type BuildkitClient } from '../../buildkit/index.ts';
import { Fault } from '../../foundation/fault.ts';
import {
  type Logger,
  noRemoteHealth,
  type RemoteHealth,
} from '../../foundation/telemetry/index.ts';
import { atMost, unlessAborted } from '../../foundation/work.ts';
import type { TrustDomain } from '../domain.ts';
import { createBindings } from './bindings.ts';
import {
  askAbout,
  type Builder,
  type BuilderState,
  createBuilderConnections,
  platformsOf,
  type TlsOf,
} from './builder-connections.ts';
import { isInDocker, mayUse, platformRank, type Separation } from './builder-fit.ts';
import { BuilderLost, classicStore, noBuilder, noResponse, notApart } from './builder-refusals.ts';
import type { BuilderSource } from './found-builder.ts';
import type { WorkerPods } from './worker-pods.ts';

/** The properties of a build that decide which builder runs it. */
export interface BuilderRequest {
  readonly domain: TrustDomain;
  /** Platforms in the form `linux/amd64`. */
  readonly platforms: readonly string[];
}

/** The available builders. */
export interface Builders {
  /**
   * Runs the work on the healthy builder that suits the platforms best: native platforms first, then emulated ones,
   * then the rest. Among equal builders, the one with the least work for its weight runs it. Nothing on the builder
   * comes from another domain, unless all of its callers have a login and it is shared. Waits while the builders that
   * suit best have as many builds as they may, or builds of another domain. Throws {@link BuilderLost} when no builder
   * answers. Throws a {@link Fault} (501) with instructions when there is no builder, and one (401, 501) when none is
   * open to the domain.
   */
  use<T>(
    request: BuilderRequest,
    signal: AbortSignal,
    work: (client: BuildkitClient) => Promise<T>,
  ): Promise<T>;
  /** True while no builder exists yet, but one is being installed. */
  isComing(): boolean;
  /** Resolves when no builder that the domain needs is being installed. */
  untilThere(domain: TrustDomain, signal: AbortSignal): Promise<void>;
  /** Throws like {@link use} when builds of the domain are not possible at all. */
  require(domain: TrustDomain): Promise<void>;
  /** Returns the builders that were used since the start. Asks them again in the background. */
  states(): readonly BuilderState[];
  close(): Promise<void>;
}

/** A build that waits for a builder, which gets no others before. */
interface Waiter {
  readonly wants: Set<Builder>;
}

const lookAgainMs = 5000;

export interface BuildersOptions {
  readonly source: BuilderSource;
  readonly log: Logger;
  readonly tlsOf?: TlsOf;
  readonly health?: RemoteHealth;
  /** True if anonymous callers leave one of several builders that have one domain at a time to users. */
  readonly keepsForUsers?: boolean;
  /** The pods of workers; absent outside Kubernetes. */
  readonly pods?: WorkerPods | undefined;
}

export function createBuilders({
  source,
  log,
  tlsOf = () => undefined,
  health = noRemoteHealth,
  keepsForUsers = false,
  pods,
}: BuildersOptions): Builders {
  const { isComing, troubles } = source;
  const connections = createBuilderConnections(source, log, tlsOf, health);
  const { known, isAble, separation } = connections;
  const bindings = createBindings(connections.drop, pods);
  const closing = new AbortController();

  // In the order of their coming.
  const waiters = new Set<Waiter>();

  // Resolves when a build has ended.
  let buildEnds = Promise.withResolvers<void>();
  const announce = (): void => {
    buildEnds.resolve();
    buildEnds = Promise.withResolvers();
  };

  /** Returns whether a build of the domain may begin on the builder now. */
  const hasPlace = (builder: Builder, name: string): boolean => {
    if (!hasRoom(builder)) return false;
    const isShared = builder.own !== undefined || builder.separation === 'shared';
    return isShared || builder.load === 0 || builder.wanted?.name === name;
  };

  const release = (builder: Builder, domain?: TrustDomain): void => {
    const end = () => {
      builder.load -= 1;
      announce();
    };
    const isLast = builder.load === 1;
    const isOver = domain?.isAlone || builder.separation === 'pod-each';
    if (!domain || !isOver || !isLast || closing.signal.aborted) {
      end();
      return;
    }
    // What the build has left goes now, not when the next build comes.
    const isSeparated = builder.separation !== undefined && builder.separation !== 'shared';
    const gone = builder.own
      ? builder.own.end()
      : isSeparated
        ? bindings.clear(builder, closing.signal)
        : undefined;
    Promise.resolve(gone)
      .catch(err =>
        log.warn({ builder: builder.name, err }, 'the state of a build cannot be removed'),
      )
      .finally(end);
  };

  /** Returns the builder to use next. Its load already includes this build, so that concurrent choices see it. */
  const choose = async (request: BuilderRequest, signal: AbortSignal): Promise<Builder> => {
    const waiter: Waiter = { wants: new Set() };
    try {
      for (;;) {
        const { promise: ended } = buildEnds;
        const chosen = await chooseNow(request, waiter, signal);
        if (chosen) return chosen;
        // A builder that starts meanwhile is found, too.
        await unlessAborted(atMost(lookAgainMs, ended), signal);
      }
    } finally {
      if (waiters.delete(waiter)) announce();
    }
  };

  /** Returns the builders that builds want which came before. */
  const wantedBefore = (waiter: Waiter): ReadonlySet<Builder> => {
    const wanted = new Set<Builder>();
    for (const other of waiters) {
      if (other === waiter) break;
      for (const builder of other.wants) wanted.add(builder);
    }
    return wanted;
  };

  /** Like {@link choose}, but returns undefined when the builders that suit best are full. */
  const chooseNow = async (
    { domain, platforms }: BuilderRequest,
    waiter: Waiter,
    signal: AbortSignal,
  ): Promise<Builder | undefined> => {
    const found = await unlessAborted(known(domain), signal);
    if (found.length === 0) throw noBuilder(troubles());
    const foreign = found.filter(({ own }) => !own);
    const kinds = await unlessAborted(
      Promise.all(foreign.map(async one => [one, await separation(one)] as const)),
      signal,
    );
    const closed = kinds.filter(([, kind]) => kind !== undefined && !mayUse(kind, domain));
    const left = new Set(found.filter(one => !closed.some(([builder]) => builder === one)));
    if (left.size === 0) throw notApart(domain);
    for (const builder of otherAddresses(kinds)) {
      left.delete(builder);
      // At its other address, it may get another domain meanwhile.
      if (builder.load === 0) builder.domain = undefined;
    }
    const ranks = await unlessAborted(ranksOf([...left], platforms), signal);
    const rankOf = (builder: Builder) => ranks.get(builder) ?? 0;
    const silent = new Set<string>();
    let isGone = false;
    while (left.size > 0) {
      const rank = Math.min(...[...left].map(rankOf));
      const best = [...left].filter(one => rankOf(one) === rank);
      const before = wantedBefore(waiter);
      const kept = keepsForUsers ? keptForUsers(best, domain) : new Set<Builder>();
      const free = best.filter(
        one => !before.has(one) && !kept.has(one) && hasPlace(one, domain.name),
      );
      const builder = preferred(free, domain);
      if (!builder) {
        // Those that suit less well would take much longer, or cannot run the steps at all.
        waiter.wants.clear();
        for (const builder of best) if (!kept.has(builder)) waiter.wants.add(builder);
        waiters.add(waiter);
        return undefined;
      }
      left.delete(builder);
      const name =
        builder.separation === 'pod-each' ? `${domain.name} ${randomUUID()}` : domain.name;
      if (builder.load === 0) builder.wanted = { name, callerKind: domain.callerKind };
      builder.load += 1;
      let isChosen = false;
      try {
        const able = await isAble(builder, signal);
        if (typeof able === 'object') silent.add(able.trouble);
        else if (able) {
          if (!builder.own && (await separation(builder)) === undefined) continue;
          if (!builder.own && !mayUse(builder.separation ?? 'shared', domain))
            throw notApart(domain);
          isChosen = await bindings.bind(builder, name, signal);
          if (isChosen) return builder;
          isGone = true;
        }
      } catch (error) {
        signal.throwIfAborted();
        if (error instanceof Fault && error.kind !== 'unavailable') throw error;
        log.warn({ builder: builder.name, err: error }, 'the builder cannot be emptied');
        silent.add('it has the state of other builds, which cannot be removed');
      } finally {
        if (!isChosen) release(builder);
      }
    }
    if (isGone) return undefined;
    if (silent.size === 0) throw classicStore();
    const reasons = [...silent].filter(trouble => trouble !== noResponse);
    throw new BuilderLost(['No builder answers', ...reasons].join(': '), false);
  };

  return {
    isComing,

    async untilThere(domain, signal) {
      await unlessAborted(source.untilInstalled(domain), signal);
    },

    async use(request, signal, work) {
      const builder = await choose(request, signal);
      askAbout(builder);
      try {
        return await work(builder.client);
      } catch (error) {
        if (error instanceof BuildError && error.kind === 'unavailable' && !signal.aborted) {
          health.failure('builder', builder.name, 'the connection was lost in a build');
        }
        throw error;
      } finally {
        release(builder, request.domain);
      }
    },

    async require(domain) {
      // Who gets no builder after the installation either does not wait for it.
      if (isComing() && !source.isClosedTo(domain)) return;
      if (await source.canStart(domain)) return;
      const found = await known(domain);
      if (found.length === 0) throw noBuilder(troubles());
      const kinds = await Promise.all(found.map(one => (one.own ? 'own' : separation(one))));
      const isApart = kinds.some(
        kind => kind === 'own' || kind === undefined || mayUse(kind, domain),
      );
      if (!isApart) throw notApart(domain);
      if (!found.every(({ client }) => isInDocker(client.address))) return;
      // A builder that does not answer now may answer when its turn comes.
      const able = await Promise.all(found.map(builder => isAble(builder)));
      if (able.every(result => result === false)) throw classicStore();
    },

    states: connections.states,

    async close() {
      closing.abort();
      connections.close();
    },
  };
}

/**
 * Returns the builders that are another one, found at a second address: a name may have addresses of IPv4 and IPv6, and
 * the configuration may list a worker twice. Each worker that has one domain at a time counts once: at an address with
 * builds, otherwise at one that answers, otherwise at the first.
 */
function otherAddresses(
  kinds: readonly (readonly [Builder, Separation | undefined])[],
): readonly Builder[] {
  const rank = ([{ load }, result]: (typeof kinds)[number]) =>
    load > 0 ? 0 : result !== undefined ? 1 : 2;
  const taken = new Set<string>();
  const others: Builder[] = [];
  for (const [builder] of kinds.toSorted((one, other) => rank(one) - rank(other))) {
    const { separation = 'shared', workers = [] } = builder;
    if (separation === 'shared') continue;
    if (workers.some(worker => taken.has(worker))) others.push(builder);
    for (const worker of workers) taken.add(worker);
  }
  return others;
}

/**
 * Returns the builders that the build of an anonymous caller must not take: of those that serve one domain at a time,
 * one stays for users, if there are several.
 */
function keptForUsers(
  builders: readonly Builder[],
  { callerKind }: TrustDomain,
): ReadonlySet<Builder> {
  const exclusive = builders.filter(({ own, separation }) => !own && separation !== 'shared');
  const taken = exclusive.filter(
    ({ load, wanted }) => load > 0 && wanted?.callerKind === 'anonymous',
  );
  const isLast = exclusive.length > 1 && taken.length >= exclusive.length - 1;
  if (callerKind === 'known' || !isLast) return new Set();
  return new Set(exclusive.filter(one => !taken.includes(one)));
}

/** Returns the builder with the least work, if possible of those without the state of another domain. */
function preferred(free: readonly Builder[], { name }: TrustDomain): Builder | undefined {
  const usual = free.filter(({ domain }) => domain === undefined || domain === name);
  const [first, ...others] = usual.length > 0 ? usual : free;
  return others.reduce((best, one) => (best && workOf(one) >= workOf(best) ? best : one), first);
}

/** The work of a builder with one more build, for its weight. */
function workOf({ load, share: { weight = 1 } }: Builder): number {
  return (load + 1) / weight;
}

function hasRoom({ load, share: { builds = Number.POSITIVE_INFINITY } }: Builder): boolean {
  return load < builds;
}

/** Returns how well each builder suits the platforms; 0 is best. A builder that does not answer is tried last. */
async function ranksOf(
  builders: readonly Builder[],
  platforms: readonly string[],
): Promise<ReadonlyMap<Builder, number>> {
  if (builders.length < 2) return new Map();
  const ranked = builders.map(async builder => {
    try {
      return [builder, platformRank(platforms, await platformsOf(builder))] as const;
    } catch {
      return [builder, Number.POSITIVE_INFINITY] as const;
    }
  });
  return new Map(await Promise.all(ranked));
}
