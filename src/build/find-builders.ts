import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type { BuildkitClient } from '../buildkit/index.ts';
import type { Logger } from '../telemetry.ts';
import type { FindBuilders } from './builders.ts';
import { type OwnBuilder, type OwnBuilderOptions, startOwnBuilder } from './own-builder.ts';
import { canPush } from './push-ability.ts';

export interface FindBuildersOptions extends OwnBuilderOptions {
  /** As configured; `off` among them means that there are to be none. */
  readonly configured: readonly string[];
  /** Addresses at which somebody else may have started one; those that are usual unless told. */
  readonly usual?: readonly string[] | undefined;
  /** Installs buildkitd into one of the folders; absent where nothing may be installed. */
  readonly bring?: (() => Promise<void>) | undefined;
  readonly log: Logger;
}

export interface FoundBuilders {
  readonly find: FindBuilders;
  /** True while a builder is being installed: {@link find} waits for it. */
  isComing(): boolean;
  /** Stops a builder of our own. */
  close(): Promise<void>;
}

const ownRuntime = process.env.XDG_RUNTIME_DIR ?? '/nonexistent';
const usualAddresses = [
  'unix:///run/buildkit/buildkitd.sock',
  `unix://${join(ownRuntime, 'buildkit/buildkitd.sock')}`,
  'docker+unix:///var/run/docker.sock',
  `docker+unix://${join(ownRuntime, 'docker.sock')}`,
];

// What was found is asked again after this time: engines are set up anew, sockets are left behind.
const believedMs = 10_000;
const questionMs = 3000;

/**
 * The configured builders; else one that runs already; else a buildkitd of our own; else, for want of
 * anything better, a Docker engine that cannot push.
 */
export function findBuilders(options: FindBuildersOptions): FoundBuilders {
  const { configured, usual = usualAddresses, log } = options;
  let own: Promise<OwnBuilder | undefined> | undefined;
  let seen: { readonly at: number; readonly running: Promise<Running> } | undefined;
  let isComing = false;
  let wasBrought = false;
  // Kept: a connection to one that is mute stays open for long, whatever is done to close it.
  const clients = new Map<string, BuildkitClient>();

  /** Whether it can push, undefined when nobody answers. */
  const ask: Question = async address => {
    const { connect } = await import('../buildkit/index.ts');
    const client = clients.get(address) ?? connect(address);
    clients.set(address, client);
    return canPush(client, { timeoutMs: questionMs }).catch(() => undefined);
  };

  const startOrBring = async (): Promise<OwnBuilder | undefined> => {
    const started = await startOwnBuilder(options);
    // Once: what failed then would fail again, and everybody would have to wait for it.
    if (started || !options.bring || wasBrought) return started;
    wasBrought = true;
    isComing = true;
    log.info('there is no builder: BuildKit is being installed, builds wait for it');
    try {
      await options.bring();
      log.info('BuildKit is installed');
    } finally {
      isComing = false;
    }
    return startOwnBuilder(options);
  };

  const findOwn = async (): Promise<OwnBuilder | undefined> => {
    const last = own;
    const isUseless = last && ((await last)?.hasEnded() ?? true);
    if (isUseless && own === last) own = undefined;
    own ??= startOrBring().catch(err => {
      log.error({ err }, 'there is no builder');
      return undefined;
    });
    return own;
  };

  const running = (): Promise<Running> => {
    if (!seen || performance.now() - seen.at > believedMs) {
      seen = { at: performance.now(), running: findRunning(usual, ask) };
    }
    return seen.running;
  };

  const find: FindBuilders = async () => {
    if (configured.includes('off')) return [];
    if (configured.length > 0) return configured;
    const { able, unable } = await running();
    if (able !== undefined) return [able];
    const started = await findOwn();
    const address = started?.address ?? unable;
    return address === undefined ? [] : [address];
  };

  // What takes minutes begins now, so that it is there when the first build comes.
  if (options.bring) find().catch(() => {});

  return {
    find,
    isComing: () => isComing,
    async close() {
      // One that is still being installed is not waited for.
      const started = isComing ? undefined : await own;
      await started?.stop();
      for (const client of clients.values()) client.close();
    },
  };
}

/** Addresses of builders that answer. */
interface Running {
  readonly able: string | undefined;
  /** Of one that cannot push what it builds. */
  readonly unable: string | undefined;
}

type Question = (address: string) => Promise<boolean | undefined>;

async function findRunning(addresses: readonly string[], ask: Question): Promise<Running> {
  let unable: string | undefined;
  for (const address of addresses) {
    if (!existsSync(address.slice(address.indexOf('://') + '://'.length))) continue;
    const answer = await ask(address);
    if (answer === true) return { able: address, unable };
    if (answer === false) unable ??= address;
  }
  return { able: undefined, unable };
}
