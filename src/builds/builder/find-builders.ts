import { accessSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { type BuildkitClient, connect } from '../../buildkit/index.ts';
import type { Logger } from '../../foundation/telemetry/index.ts';
import { anonymousDomain, type TrustDomain } from '../domain.ts';
import { canPush, mayUse, type Separation, separationOf } from './builder-fit.ts';
import { troubleOf } from './builder-refusals.ts';
import { obstacleToContainment } from './contained/containment.ts';
import type { BuilderShare, BuilderSource, FindBuilders, FoundBuilder } from './found-builder.ts';
import { type AddressesOf, createAddressesOf } from './named-builders.ts';
import type { OwnBuilder } from './own/builder-process.ts';
import { createDomainBuilders, type DomainStart } from './own/domain-builders.ts';
import {
  builderPath,
  closedToAnonymous,
  hasOwnBuilder,
  type OwnBuilderOptions,
  startOwnBuilder,
} from './own/own-builder.ts';

/**
 * Installs buildkitd into one of the folders and reports its steps. When the signal is aborted, it rejects after all
 * its processes have ended.
 */
export type BringBuilder = (signal: AbortSignal, onStep: (step: string) => void) => Promise<void>;

export interface FindBuildersOptions extends OwnBuilderOptions {
  /** Configured addresses, also names of several builders; `off` among them disables all builders. */
  readonly configured: readonly string[];
  /** How much work the configured builders get, by their configured address. */
  readonly shares?: ReadonlyMap<string, BuilderShare> | undefined;
  /** What the configured addresses stand for. Default: what the name service of the system says. */
  readonly addressesOf?: AddressesOf | undefined;
  /** Builders of other operators on which anonymous callers may build; `*` means all. */
  readonly open?: readonly string[] | undefined;
  /** Addresses at which another program may have started a builder. Default: the usual addresses. */
  readonly usual?: readonly string[] | undefined;
  /** Installs buildkitd into one of the folders; absent where installation is not allowed. */
  readonly bring?: BringBuilder | undefined;
  /**
   * Hosts that a contained builder of anonymous callers reaches although their addresses are closed, instead of those
   * of `containment.openHosts.builder`: ADD follows redirects to whatever the builder reaches. Default: the same.
   */
  readonly anonymousReach?: readonly string[] | undefined;
  /** Time before a failed start of a contained builder is repeated (ms). Default: two minutes. */
  readonly retryMs?: number | undefined;
  /** How long the builder of a domain keeps running without builds (ms). Default: two minutes. */
  readonly idleMs?: number | undefined;
  readonly log: Logger;
}

export interface FoundBuilders extends BuilderSource {
  /** True if the configuration lists builders. */
  readonly isConfigured: boolean;
  /** Stops the builder that this server started. */
  close(): Promise<void>;
}

const ownRuntime = process.env.XDG_RUNTIME_DIR ?? '/nonexistent';
const usualAddresses = [
  'unix:///run/buildkit/buildkitd.sock',
  `unix://${join(ownRuntime, 'buildkit/buildkitd.sock')}`,
  'docker+unix:///var/run/docker.sock',
  `docker+unix://${join(ownRuntime, 'docker.sock')}`,
];

// Results are checked again after this time (ms): engines are reconfigured, and sockets remain after their builder
// ends.
const believedMs = 10_000;
/** Stands for a builder that has no address yet, and that is closed to the caller. */
const comingAddress = 'unix:being-installed';
const probeMs = 3000;
const remindMs = 30_000;
const usualIdleMs = 2 * 60_000;
const mostIdle = 4;

/**
 * Finds builders in this order: the configured builders; a running builder, if anonymous callers may build there or the
 * caller is known; a buildkitd that this server starts; a Docker engine that cannot push.
 */
export function findBuilders(options: FindBuildersOptions): FoundBuilders {
  const { configured, usual = usualAddresses, open = [], log, shares } = options;
  const { addressesOf = createAddressesOf() } = options;
  let seen: { readonly at: number; readonly running: Promise<Running> } | undefined;
  let isComing = false;
  const closing = new AbortController();
  let installing: Promise<boolean> | undefined;
  // Clients are kept: a connection to a builder that does not answer stays open for long, even after it is closed.
  const clients = new Map<string, BuildkitClient>();

  const separations = new Map<string, Separation>();

  // By address: why a builder cannot be used although its socket exists.
  const troubles = new Map<string, string>();

  /** Returns whether the builder can push; undefined if it does not answer. */
  const ask: Probe = async address => {
    const client = clients.get(address) ?? connect(address);
    clients.set(address, client);
    try {
      const able = await canPush(client, { timeoutMs: probeMs });
      separations.set(address, separationOf(await client.listWorkers({ timeoutMs: probeMs })));
      troubles.delete(address);
      return able;
    } catch (err) {
      const trouble = await troubleOf(address, err);
      if (troubles.get(address) !== trouble) {
        log.warn(
          { builder: address, reason: trouble, err },
          'a builder was found but cannot be used',
        );
      }
      troubles.set(address, trouble);
      return undefined;
    }
  };

  /** Installs once: a failed installation would fail again, and all callers would wait for it. */
  const installed = async (): Promise<boolean> => {
    if (!options.bring) return false;
    installing ??= install(options.bring);
    return installing;
  };

  const install = async (bring: BringBuilder): Promise<boolean> => {
    isComing = true;
    log.info('no builder was found: BuildKit is being installed, and builds wait for it');
    using progress = tellProgress(log);
    try {
      await bring(closing.signal, progress.onStep);
      log.info('BuildKit is installed');
      return true;
    } catch (err) {
      if (closing.signal.aborted) log.info('the installation of BuildKit was stopped');
      else log.error({ err }, 'BuildKit cannot be installed');
      return false;
    } finally {
      isComing = false;
    }
  };

  const containmentFor = ({ callerKind, together }: DomainStart) => {
    const { containment, anonymousReach } = options;
    if (!containment) return undefined;
    const { openHosts } = containment;
    const builder = callerKind === 'anonymous' ? anonymousReach : undefined;
    return { ...containment, together, openHosts: { ...openHosts, ...(builder && { builder }) } };
  };

  const startOrBring = async (start: DomainStart) => {
    const containment = containmentFor(start);
    const begin = () => startOwnBuilder({ ...options, ...start, containment });
    return (await begin()) ?? ((await installed()) ? begin() : undefined);
  };

  const own = createDomainBuilders({
    directory: resolve(options.directory),
    start: startOrBring,
    onFailure: err => log.error({ err }, 'no builder is available'),
    maxIdle: mostIdle,
    idleMs: options.idleMs ?? usualIdleMs,
    stateBytes: options.containment?.stateBytes ?? Number.POSITIVE_INFINITY,
    retryMs: options.retryMs,
    log,
  });

  const running = (): Promise<Running> => {
    if (!seen || performance.now() - seen.at > believedMs) {
      seen = { at: performance.now(), running: findRunning(usual, ask, troubles) };
    }
    return seen.running;
  };

  const foreign = (address: string) => ({
    address,
    isOpen: open.includes('*') || open.includes(address),
  });

  const behind = async (name: string): Promise<readonly FoundBuilder[]> => {
    const { isOpen } = foreign(name);
    const share = shares?.get(name);
    const addresses = await addressesOf(name);
    return addresses.map(address => ({ address, configured: name, isOpen, share }));
  };

  /** Returns the running builders, and whether the domain gets one that this server starts. */
  const look = async (domain: TrustDomain) => {
    const { able, unable } = await running();
    if (able === undefined) return { found: undefined, unable, isOwn: true };
    const found = foreign(able);
    const isClosed =
      !mayUse(separations.get(able) ?? 'shared', domain) ||
      (domain.callerKind === 'anonymous' && !found.isOpen);
    // Anonymous callers need a network of their own.
    const isOwn = isClosed && (domain.callerKind === 'known' || mayContain(options));
    return { found, unable, isOwn };
  };

  const isOpenOwn = ({ isContained }: Pick<OwnBuilder, 'isContained'>): boolean =>
    isContained || open.includes('*');

  const isClosedTo = ({ callerKind }: TrustDomain): boolean =>
    callerKind === 'anonymous' && !open.includes('*') && !mayContain(options);

  const find: FindBuilders = async (domain, isBusy = () => false) => {
    if (configured.includes('off')) return [];
    if (configured.length > 0) return (await Promise.all(configured.map(behind))).flat();
    const { found, unable, isOwn } = await look(domain);
    if (found && !isOwn) return [found];
    if (isComing && isClosedTo(domain)) return [found ?? { address: comingAddress, isOpen: false }];
    const started = await own.get(domain, isBusy);
    if (started) {
      const { address, hasEnded } = started;
      const isOpen = isOpenOwn(started);
      return [{ address, isOpen, own: { hasEnded, end: () => own.end(domain) } }];
    }
    if (found) return [found];
    return unable === undefined ? [] : [foreign(unable)];
  };

  reportOpenness(options);
  // An installation takes minutes. It begins now, so that the builder is ready for the first build.
  if (options.bring) find(anonymousDomain).catch(() => {});

  return {
    find,
    async canStart(domain) {
      if (configured.length > 0) return false;
      const last = own.lastStart() ?? expectedStart(options);
      if (last === 'failed' || (domain.callerKind === 'anonymous' && !isOpenOwn(last)))
        return false;
      return (await look(domain)).isOwn;
    },
    async untilInstalled(domain) {
      if (configured.length > 0 || isClosedTo(domain)) return;
      if ((await look(domain)).isOwn) await installing;
    },
    isConfigured: configured.length > 0 && !configured.includes('off'),
    isComing: () => isComing,
    isClosedTo,
    troubles: () => [...new Set(troubles.values())],
    async close() {
      closing.abort();
      for (const client of clients.values()) client.close();
      await own.close();
    },
  };
}

/** Returns how the first start of a builder would end, by the programs that are installed. */
function expectedStart(options: FindBuildersOptions): 'failed' | Pick<OwnBuilder, 'isContained'> {
  if (!hasOwnBuilder(options)) return 'failed';
  const obstacle = options.containment && obstacleToContainment(builderPath(options));
  return { isContained: options.containment !== undefined && obstacle === undefined };
}

/**
 * Returns whether this server's own builder would be open to anonymous callers once everything it requires is
 * installed.
 */
function mayContain({ containment }: FindBuildersOptions): boolean {
  return containment !== undefined && process.platform === 'linux' && process.getuid?.() === 0;
}

/** Logs that callers without a login cannot build, and how to change that. */
function reportOpenness(options: FindBuildersOptions): void {
  const { configured, open = [], containment, bring, log } = options;
  if (configured.includes('off')) return;
  if (configured.length > 0) {
    if (open.includes('*') || configured.some(address => open.includes(address))) return;
    log.warn(
      'builds of callers without a login are off: their build steps could connect to everything that the builders of SLUICE_BUILDKIT can connect to. List builders that may build for all callers in SLUICE_BUILDS_OPEN_BUILDERS',
    );
    return;
  }
  // Without its programs, as in the image of Sluice, nobody has this builder.
  if (bring === undefined && !hasOwnBuilder(options)) return;
  // The running installation may add what is missing, but not the rights of root.
  if (containment === undefined || (bring !== undefined && mayContain(options))) return;
  const obstacle = obstacleToContainment(builderPath(options));
  if (obstacle !== undefined) log.warn(closedToAnonymous(obstacle));
}

/** Logs the steps of an installation, and every 30 s that the last step still runs. */
function tellProgress(log: Logger): Disposable & { readonly onStep: (step: string) => void } {
  const began = performance.now();
  const seconds = () => Math.round((performance.now() - began) / 1000);
  let step = 'begun';
  const timer = setInterval(() => {
    log.info({ step, seconds: seconds() }, 'BuildKit is still being installed');
  }, remindMs).unref();
  return {
    onStep(next) {
      step = next;
      log.info({ step, seconds: seconds() }, 'BuildKit is being installed');
    },
    [Symbol.dispose]: () => clearInterval(timer),
  };
}

/** Addresses of builders that answer. */
interface Running {
  readonly able: string | undefined;
  /** Address of a builder that cannot push. */
  readonly unable: string | undefined;
}

type Probe = (address: string) => Promise<boolean | undefined>;

async function findRunning(
  addresses: readonly string[],
  ask: Probe,
  troubles: Map<string, string>,
): Promise<Running> {
  let unable: string | undefined;
  for (const address of addresses) {
    if (!isThere(address.slice(address.indexOf('://') + '://'.length))) {
      troubles.delete(address);
      continue;
    }
    const result = await ask(address);
    if (result === true) return { able: address, unable };
    if (result === false) unable ??= address;
  }
  return { able: undefined, unable };
}

/** Returns whether a socket exists, even in a directory that this user may not read. */
function isThere(path: string): boolean {
  try {
    accessSync(path);
    return true;
  } catch (error) {
    return !['ENOENT', 'ENOTDIR'].includes((error as NodeJS.ErrnoException).code ?? '');
  }
}
