import { BuildError, type BuildkitClient, connect, type TlsOptions } from '../../buildkit/index.ts';
import { atMost, unlessAborted } from '../../foundation/bounded-wait.ts';
import { Fault } from '../../foundation/fault.ts';
import { noRemoteHealth, type RemoteHealth } from '../../foundation/telemetry/remote-health.ts';
import type { Logger } from '../../foundation/telemetry.ts';
import { traceHeaders } from '../../tracing/traces.ts';
import type { TlsOf } from './builder-tls.ts';
import { troubleOf } from './builder-trouble.ts';
import type { IsBusy } from './own/keep-builder.ts';
import { platformRank } from './platform-rank.ts';
import { canPush, isInDocker } from './push-ability.ts';

/** The builder went away, or no builder answers. Another builder or another attempt may succeed. */
export class BuilderLost extends Fault {
  /** True if the builder went away during the build. The build may be the cause. */
  readonly hadBegun: boolean;

  constructor(message: string, hadBegun: boolean, cause?: unknown) {
    super('unavailable', message, { phase: 'build', cause });
    this.hadBegun = hadBegun;
  }
}

/** Kind of caller. Builds of strangers run only on builders that cannot connect to closed addresses. */
export type Customer = 'known' | 'stranger';

/** The properties of a build that decide which builder runs it. */
export interface BuilderWish {
  readonly customer: Customer;
  /** Platforms in the form `linux/amd64`. */
  readonly platforms: readonly string[];
}

/** The available builders. */
export interface Builders {
  /**
   * Runs the work on the healthy builder that suits the platforms best: native platforms first, then emulated ones,
   * then the rest. Among equal builders, the one with the least work for its weight runs it. Waits while the
   * builders that suit best have as many builds as they may. Throws {@link BuilderLost} when no builder answers. Throws a {@link Fault} (501) with instructions when there is no builder, and one (401) when no
   * builder is open to strangers.
   */
  use<T>(
    wish: BuilderWish,
    signal: AbortSignal,
    work: (client: BuildkitClient) => Promise<T>,
  ): Promise<T>;
  /** True while no builder exists yet, but one is being installed. */
  isComing(): boolean;
  /** Resolves when no builder that the customer needs is being installed. */
  untilThere(customer: Customer, signal: AbortSignal): Promise<void>;
  /** Throws like {@link use} when builds are not possible at all. */
  require(customer: Customer): Promise<void>;
  /** Returns the builders that were used since the start. Asks them again in the background. */
  states(): readonly BuilderState[];
  close(): Promise<void>;
}

interface BuilderAbout {
  readonly version: string | undefined;
  readonly platforms: readonly string[];
}

/** A builder that was used. Version and platforms are undefined until it has answered. */
export interface BuilderState extends Partial<BuilderAbout> {
  readonly address: string;
  /** Builds that it runs now. */
  readonly running: number;
}

/** How much work a builder gets. */
export interface BuilderShare {
  /** Builds that it gets for each one that a builder of weight 1 gets. Default: 1. */
  readonly weight?: number | undefined;
  /** Maximum number of simultaneous builds. Default: no limit. */
  readonly builds?: number | undefined;
}

/** A builder that was found. */
export interface FoundBuilder {
  readonly address: string;
  /** The configured address that it was found by, with the name of several builders. Default: its address. */
  readonly configured?: string;
  readonly share?: BuilderShare | undefined;
  /** True if strangers may build there. */
  readonly isOpen: boolean;
}

/** Finds builders for a customer. Resolves only after a running installation has ended. */
export type FindBuilders = (
  customer: Customer,
  isBusy?: IsBusy,
) => Promise<readonly FoundBuilder[]>;

/** Finds builders and supplies the certificates for their connections. */
export interface BuilderSource {
  readonly find: FindBuilders;
  /** True while a builder is being installed. */
  isComing(): boolean;
  /** Returns why the builders that were found cannot be used; empty if none was found. */
  troubles(): readonly string[];
}

interface Builder {
  readonly client: BuildkitClient;
  readonly tls: TlsOptions | undefined;
  readonly share: BuilderShare;
  load: number;
  about?: BuilderAbout;
  askedAt?: number;
  /** The platforms that the builder reported. */
  told?: { readonly at: number; readonly platforms: Promise<readonly string[]> };
}

const toldMs = 60_000;
const healthMs = 3000;
const lookAgainMs = 5000;

export function createBuilders(
  { find, isComing, troubles }: BuilderSource,
  log: Logger,
  tlsOf: TlsOf = () => undefined,
  health: RemoteHealth = noRemoteHealth,
): Builders {
  const builders = new Map<string, Builder>();
  // Builders whose certificates have been replaced, while they still build.
  const leaving = new Set<Builder>();

  // The builders last found for each kind of customer. Connections to all others are closed.
  const listed = new Map<Customer, readonly FoundBuilder[]>();

  // Resolves when a build has ended.
  let buildEnds = Promise.withResolvers<void>();
  const release = (builder: Builder): void => {
    builder.load -= 1;
    buildEnds.resolve();
    buildEnds = Promise.withResolvers();
  };

  const isBusy: IsBusy = address =>
    [...builders.values(), ...leaving].some(
      ({ client, load }) => client.address === address && load > 0,
    );

  /** Returns the current builders for a customer, each with its connection. */
  const known = async (customer: Customer): Promise<Builder[]> => {
    const found = await find(customer, isBusy);
    const usable = found.filter(({ isOpen }) => isOpen || customer === 'known');
    if (found.length > 0 && usable.length === 0) throw closedToStrangers();
    listed.set(customer, usable);
    const wanted = new Map([...listed.values()].flat().map(one => [one.address, one]));
    for (const builder of leaving) {
      if (builder.load > 0) continue;
      builder.client.close();
      leaving.delete(builder);
    }
    for (const [address, builder] of builders) {
      const found = wanted.get(address);
      const isCurrent = found !== undefined && tlsOf(nameOf(found)) === builder.tls;
      if (isCurrent || (!found && builder.load > 0)) continue;
      if (builder.load > 0) leaving.add(builder);
      else builder.client.close();
      builders.delete(address);
    }
    return usable.map(found => {
      const { address, share = {} } = found;
      const known = builders.get(address);
      if (known) return known;
      const tls = tlsOf(nameOf(found));
      const builder = {
        client: connect(address, {
          ...(tls ? { tls } : {}),
          callHeaders: traceHeaders,
        }),
        tls,
        share,
        load: 0,
      };
      builders.set(address, builder);
      return builder;
    });
  };

  /** Returns whether the builder can push, or the reason if it does not answer. */
  const isAble = async (
    { client }: Builder,
    signal?: AbortSignal,
  ): Promise<boolean | { readonly trouble: string }> => {
    const began = performance.now();
    try {
      const isAbleTo = await canPush(client, { timeoutMs: healthMs, signal });
      health.success('builder', client.address, performance.now() - began);
      return isAbleTo;
    } catch (err) {
      signal?.throwIfAborted();
      log.warn({ builder: client.address, err }, 'the builder does not answer');
      const trouble = await troubleOf(client.address, err);
      health.failure('builder', client.address, trouble);
      return { trouble };
    }
  };

  /** Returns the builder to use next. Its load already includes this build, so that concurrent choices see it. */
  const choose = async (wish: BuilderWish, signal: AbortSignal): Promise<Builder> => {
    for (;;) {
      const { promise: ended } = buildEnds;
      const chosen = await chooseNow(wish, signal);
      if (chosen) return chosen;
      // A builder that starts meanwhile is found, too.
      await unlessAborted(atMost(lookAgainMs, ended), signal);
    }
  };

  /** Like {@link choose}, but returns undefined when the builders that suit best are full. */
  const chooseNow = async (
    { customer, platforms }: BuilderWish,
    signal: AbortSignal,
  ): Promise<Builder | undefined> => {
    const found = await unlessAborted(known(customer), signal);
    if (found.length === 0) throw noBuilder(troubles());
    const ranks = await unlessAborted(ranksOf(found, platforms), signal);
    const rankOf = (builder: Builder) => ranks.get(builder) ?? 0;
    const silent = new Set<string>();
    const left = new Set(found);
    while (left.size > 0) {
      const rank = Math.min(...[...left].map(rankOf));
      const free = [...left].filter(one => rankOf(one) === rank && hasRoom(one));
      // Those that suit less well would take much longer, or cannot run the steps at all.
      if (free.length === 0) return undefined;
      const builder = free.reduce((best, one) => (workOf(one) < workOf(best) ? one : best));
      left.delete(builder);
      builder.load += 1;
      let able: Awaited<ReturnType<typeof isAble>> | undefined;
      try {
        able = await isAble(builder, signal);
      } finally {
        if (able !== true) release(builder);
      }
      if (able === true) return builder;
      if (typeof able === 'object') silent.add(able.trouble);
    }
    if (silent.size === 0) throw classicStore();
    throw new BuilderLost(`No builder answers: ${[...silent].join('; ')}`, false);
  };

  return {
    isComing,

    async untilThere(customer, signal) {
      await unlessAborted(find(customer), signal);
    },

    async use(wish, signal, work) {
      const builder = await choose(wish, signal);
      askAbout(builder);
      try {
        return await work(builder.client);
      } catch (error) {
        if (error instanceof BuildError && error.kind === 'unavailable' && !signal.aborted) {
          health.failure('builder', builder.client.address, 'the connection was lost in a build');
        }
        throw error;
      } finally {
        release(builder);
      }
    },

    async require(customer) {
      if (isComing()) return;
      const found = await known(customer);
      if (found.length === 0) throw noBuilder(troubles());
      if (!found.every(({ client }) => isInDocker(client.address))) return;
      // A builder that does not answer now may answer when its turn comes.
      const able = await Promise.all(found.map(builder => isAble(builder)));
      if (able.every(answer => answer === false)) throw classicStore();
    },

    states: () =>
      [...builders.values()].map(builder => {
        askAbout(builder);
        const { client, load, about } = builder;
        return { address: client.address, running: load, ...about };
      }),

    async close() {
      for (const { client } of [...builders.values(), ...leaving]) client.close();
    },
  };
}

/** The work of a builder with one more build, for its weight. */
function workOf({ load, share: { weight = 1 } }: Builder): number {
  return (load + 1) / weight;
}

function hasRoom({ load, share: { builds = Number.POSITIVE_INFINITY } }: Builder): boolean {
  return load < builds;
}

function nameOf({ address, configured = address }: FoundBuilder): string {
  return configured;
}

/** Asks a builder for its version and platforms, at most once a minute. Nobody waits for the answer. */
function askAbout(builder: Builder): void {
  const now = performance.now();
  if (builder.askedAt !== undefined && now - builder.askedAt < toldMs) return;
  builder.askedAt = now;
  const options = { timeoutMs: healthMs };
  Promise.all([builder.client.info(options), builder.client.listWorkers(options)]).then(
    ([{ version }, workers]) => {
      const platforms = [...new Set(workers.flatMap(worker => worker.platforms))];
      builder.about = { version, platforms };
    },
    // Its health has the failures of builds.
    () => {},
  );
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

function platformsOf(builder: Builder): Promise<readonly string[]> {
  const { told } = builder;
  if (told && performance.now() - told.at < toldMs) return told.platforms;
  const platforms = builder.client
    .listWorkers({ timeoutMs: healthMs })
    .then(workers => workers.flatMap(worker => worker.platforms));
  builder.told = { at: performance.now(), platforms };
  // The next build asks the builder again.
  platforms.catch(() => delete builder.told);
  return platforms;
}

const howToGetOne =
  "ask its operator to start one ('docker compose -f builder/compose.yaml up -d' in the folder of Sluice, or 'npm run buildkit' on Debian) or to name one with SLUICE_BUILDKIT";

function noBuilder(troubles: readonly string[]): Fault {
  const message =
    troubles.length === 0
      ? `This server has no builder: ${howToGetOne}`
      : `This server cannot use the builder that it found: ${troubles.join('; ')}. Ask its operator, whose log has the address`;
  return new Fault('not-provided', message, { phase: 'build' });
}

/** Build steps can connect to everything that their builder can connect to. */
function closedToStrangers(): Fault {
  const message =
    "This server builds only for callers with a login, because build steps on its builder can reach the server's network: send an access token (`towerAccessToken`; for the command line, SLUICE_TOKEN) or log in with an account. Its operator can open a builder to everybody (SLUICE_BUILDS_OPEN_BUILDERS), or install the packages that give the builder its own network: the log lists them";
  return new Fault('unauthorized', message, { phase: 'build' });
}

function classicStore(): Fault {
  const message = `The only builder of this server is in a Docker engine with the classic image store, which cannot push what it builds: ask its operator to switch on the containerd image store (Docker 23 or newer: "features": {"containerd-snapshotter": true} in /etc/docker/daemon.json), or ${howToGetOne}`;
  return new Fault('not-provided', message, { phase: 'build' });
}
