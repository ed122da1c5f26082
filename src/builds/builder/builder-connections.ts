import {
  type BuilderWorker,
  type BuildkitClient,
  connect,
  readTlsFiles,
  type TlsFiles,
  type TlsOptions,
} from '../../buildkit/index.ts';
import type { Logger, RemoteHealth } from '../../foundation/telemetry/index.ts';
import { traceHeaders } from '../../tracing/traces.ts';
import type { TrustDomain } from '../domain.ts';
import { canPush, type Separation, separationOf, wipeLabel } from './builder-fit.ts';
import { closedToAnonymous, troubleOf } from './builder-refusals.ts';
import type {
  BuilderShare,
  BuilderSource,
  FoundBuilder,
  IsBusy,
  OwnHandle,
} from './found-builder.ts';
import { parseBuilderName } from './named-builders.ts';

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

/** A builder with its connection. */
export interface Builder {
  /** The name for operators. */
  readonly name: string;
  readonly client: BuildkitClient;
  readonly tls: TlsOptions | undefined;
  readonly share: BuilderShare;
  readonly own: OwnHandle | undefined;
  /** Builds that run there, and the removal of its state. */
  load: number;
  /** The domain whose builds run there, or are about to. */
  wanted?: Pick<TrustDomain, 'name' | 'callerKind'>;
  /** The name of the domain whose state it has, while that is certain. */
  domain?: string | undefined;
  /** Resolves when the state of the domain before is gone. */
  emptied?: Promise<void>;
  separation?: Separation;
  /** The ids of its workers, which are the same at all its addresses; known once it has answered. */
  workers?: readonly string[];
  about?: BuilderAbout;
  askedAt?: number;
  /** What the builder reported of its workers. */
  report?: { readonly at: number; readonly workers: Promise<readonly BuilderWorker[]> };
}

/** The connections to the builders that were found. */
interface BuilderConnections {
  /** Returns the current builders for a domain. Throws a `Fault` (401) if none is open to it. */
  known(domain: TrustDomain): Promise<Builder[]>;
  /** Returns whether the builder can push, or the reason if it does not answer. */
  isAble(builder: Builder, signal?: AbortSignal): Promise<boolean | { readonly trouble: string }>;
  /** Returns how the builder keeps domains apart; undefined if it does not answer. */
  separation(builder: Builder): Promise<Separation | undefined>;
  /** Forgets a builder that is gone. */
  drop(builder: Builder): void;
  states(): readonly BuilderState[];
  close(): void;
}

const reportMs = 60_000;
const healthMs = 3000;

/** The name for operators of all builders that this server starts. */
const ownName = 'own builder';

export function createBuilderConnections(
  { find }: Pick<BuilderSource, 'find'>,
  log: Logger,
  tlsOf: TlsOf,
  health: RemoteHealth,
): BuilderConnections {
  const builders = new Map<string, Builder>();
  // Builders whose certificates have been replaced, while they still build.
  const leaving = new Set<Builder>();

  // The builders last found for each kind of caller, without those that this server has started. Connections to all
  // others are closed.
  const listed = new Map<TrustDomain['callerKind'], readonly FoundBuilder[]>();

  const isBusy: IsBusy = address =>
    [...builders.values(), ...leaving].some(
      ({ client, load }) => client.address === address && load > 0,
    );

  const drop = (builder: Builder): void => {
    if (builders.get(builder.client.address) === builder) builders.delete(builder.client.address);
    builder.client.close();
  };

  const open = (found: FoundBuilder): Builder => {
    const { address, share = {}, own } = found;
    const name = own ? ownName : nameOf(found);
    const tls = tlsOf(name);
    const options = { ...(tls ? { tls } : {}), callHeaders: traceHeaders };
    const builder = { name, client: connect(address, options), tls, share, own, load: 0 };
    builders.set(address, builder);
    return builder;
  };

  /** Returns the current builders for a domain, each with its connection. */
  const known = async (domain: TrustDomain): Promise<Builder[]> => {
    const { callerKind } = domain;
    const found = await find(domain, isBusy);
    const usable = found.filter(({ isOpen }) => isOpen || callerKind === 'known');
    if (found.length > 0 && usable.length === 0) throw closedToAnonymous();
    listed.set(
      callerKind,
      usable.filter(({ own }) => own === undefined),
    );
    const wanted = new Map([...listed.values()].flat().map(one => [one.address, one]));
    for (const builder of leaving) {
      if (builder.load > 0) continue;
      builder.client.close();
      leaving.delete(builder);
    }
    for (const [address, builder] of builders) {
      const found = wanted.get(address);
      const isCurrent = builder.own
        ? !builder.own.hasEnded()
        : found !== undefined && tlsOf(nameOf(found)) === builder.tls;
      if (isCurrent || (!found && builder.load > 0)) continue;
      if (builder.load > 0) leaving.add(builder);
      else builder.client.close();
      builders.delete(address);
    }
    return usable.map(found => builders.get(found.address) ?? open(found));
  };

  /** Returns whether the builder can push, or the reason if it does not answer. */
  const isAble = async (
    { client, name }: Builder,
    signal?: AbortSignal,
  ): Promise<boolean | { readonly trouble: string }> => {
    const began = performance.now();
    try {
      const isAbleTo = await canPush(client, { timeoutMs: healthMs, signal });
      health.success('builder', name, performance.now() - began);
      return isAbleTo;
    } catch (err) {
      signal?.throwIfAborted();
      log.warn({ builder: client.address, err }, 'the builder does not answer');
      const trouble = await troubleOf(client.address, err);
      health.failure('builder', name, trouble);
      return { trouble };
    }
  };

  /** Returns how the builder keeps domains apart; undefined if it does not answer. */
  const separation = async (builder: Builder): Promise<Separation | undefined> => {
    const workers = await workersOf(builder).catch(() => undefined);
    if (!workers) return undefined;
    builder.workers = workers.map(({ id }) => id);
    const found = separationOf(workers);
    if (builder.separation === undefined && found === 'shared') {
      log.warn(
        { builder: builder.name },
        `all callers with a login share this builder and its cache: a caller who knows the hash of a git commit or file that ADD has fetched for another one gets it. Builds with secrets, SSH keys or a proxy, and those of callers without a login, are refused there. If only Sluice uses it, give its worker the label ${wipeLabel}=prune`,
      );
    }
    // A worker that a step has got hold of cannot loosen how it is emptied.
    if (builder.separation === undefined || builder.separation === 'shared') {
      builder.separation = found;
    }
    return builder.separation;
  };

  return {
    known,
    isAble,
    separation,
    drop,

    states() {
      // The builders of all domains count as one.
      const states = new Map<string, BuilderState>();
      for (const builder of builders.values()) {
        askAbout(builder);
        const { name, load, about } = builder;
        const running = load + (states.get(name)?.running ?? 0);
        states.set(name, { ...states.get(name), address: name, running, ...about });
      }
      return [...states.values()];
    },

    close() {
      for (const { client } of [...builders.values(), ...leaving]) client.close();
    },
  };
}

function nameOf({ address, configured = address }: FoundBuilder): string {
  return configured;
}

/** Asks a builder for its version and platforms, at most once a minute. Nobody waits for the response. */
export function askAbout(builder: Builder): void {
  const now = performance.now();
  if (builder.askedAt !== undefined && now - builder.askedAt < reportMs) return;
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

/** Returns the platforms of a builder. Rejects when it does not answer. */
export async function platformsOf(builder: Builder): Promise<readonly string[]> {
  return (await workersOf(builder)).flatMap(worker => worker.platforms);
}

function workersOf(builder: Builder): Promise<readonly BuilderWorker[]> {
  const { report } = builder;
  if (report && performance.now() - report.at < reportMs) return report.workers;
  const workers = builder.client.listWorkers({ timeoutMs: healthMs });
  builder.report = { at: performance.now(), workers };
  // The next build asks the builder again.
  workers.catch(() => delete builder.report);
  return workers;
}

/**
 * Returns the TLS options of the builder with a configured address; undefined for a builder without TLS. Returns the same object
 * until the files change.
 */
export type TlsOf = (address: string) => TlsOptions | undefined;

interface Kept {
  readonly options: TlsOptions;
  readonly readAt: number;
}

// Certificates are replaced while the server runs. An operator expects a new one to be used within this time.
const keptMs = 10_000;

/**
 * Reads the files of builders again when they are old. Reports invalid files and keeps using the last valid content:
 * the files may be in the middle of a replacement.
 */
export function createBuilderTls(files: ReadonlyMap<string, TlsFiles>, log: Logger): TlsOf {
  const kept = new Map<string, Kept>();
  return address => {
    const own = files.get(address);
    if (own === undefined) return undefined;
    const known = kept.get(address);
    const now = performance.now();
    if (known && now - known.readAt < keptMs) return known.options;
    let options: TlsOptions;
    try {
      options = withName(address, readTlsFiles(own));
    } catch (error) {
      if (!known) throw error;
      const { message } = error as Error;
      log.error(
        { builder: address, reason: message },
        'cannot use the changed certificate files of a builder: the previous ones stay in use',
      );
      options = known.options;
    }
    const isSame = known && JSON.stringify(known.options) === JSON.stringify(options);
    if (known && !isSame)
      log.info({ builder: address }, 'the changed certificates of a builder are in use');
    const current = known && isSame ? known.options : options;
    kept.set(address, { options: current, readAt: now });
    return current;
  };
}

/** The builders behind a name have its certificate, not one for their addresses. */
function withName(address: string, options: TlsOptions): TlsOptions {
  const name = parseBuilderName(address);
  return name ? { ...options, serverName: options.serverName ?? name.host } : options;
}
