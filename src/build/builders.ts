import type { BuildkitClient } from '../buildkit/index.ts';
import { Fault } from '../fault.ts';
import type { Logger } from '../telemetry.ts';
import { canPush, isInDocker } from './push-ability.ts';

/** The builder went away, or none answers: another one, or another try, may do. */
export class BuilderLost extends Fault {
  /** In the middle of the build, which may be the reason. */
  readonly hadBegun: boolean;

  constructor(message: string, hadBegun: boolean, cause?: unknown) {
    super('unavailable', message, { phase: 'build', cause });
    this.hadBegun = hadBegun;
  }
}

/** The builders there are. */
export interface Builders {
  /**
   * Runs the work on the healthy builder with the least of it. Throws {@link BuilderLost} when none
   * answers, and a {@link Fault} (503) that tells how to get a builder when there is none.
   */
  use<T>(signal: AbortSignal, work: (client: BuildkitClient) => Promise<T>): Promise<T>;
  /** True while there is none yet, but one is being installed. */
  isComing(): boolean;
  /** Resolves when no builder is being installed any more. */
  untilThere(signal: AbortSignal): Promise<void>;
  /** Throws like {@link use} when builds are not possible at all. */
  require(): Promise<void>;
  close(): Promise<void>;
}

/** Finds the addresses of builders; resolves late while one is being brought along. */
export type FindBuilders = () => Promise<readonly string[]>;

interface Builder {
  readonly client: BuildkitClient;
  load: number;
}

const healthMs = 3000;

/** @param isComing true while a builder is being brought along */
export function createBuilders(find: FindBuilders, isComing: () => boolean, log: Logger): Builders {
  const builders = new Map<string, Builder>();

  /** The builders that there are now, each with its connection. */
  const known = async (): Promise<Builder[]> => {
    const addresses = await find();
    // Loaded when it is first needed: gRPC takes a third of the time of a start.
    const { connect } = await import('../buildkit/index.ts');
    for (const [address, { client, load }] of builders) {
      if (load > 0 || addresses.includes(address)) continue;
      client.close();
      builders.delete(address);
    }
    return addresses.map(address => {
      const builder = builders.get(address) ?? { client: connect(address), load: 0 };
      builders.set(address, builder);
      return builder;
    });
  };

  /** Undefined when it does not answer. */
  const isAble = async (
    { client }: Builder,
    signal?: AbortSignal,
  ): Promise<boolean | undefined> => {
    try {
      return await canPush(client, { timeoutMs: healthMs, signal });
    } catch (err) {
      signal?.throwIfAborted();
      log.warn({ builder: client.address, err }, 'the builder does not answer');
      return undefined;
    }
  };

  /** The builder to use next, its load counted already: who chooses meanwhile sees it. */
  const choose = async (signal: AbortSignal): Promise<Builder> => {
    const left = new Set(await unlessAborted(known(), signal));
    if (left.size === 0) throw noBuilder();
    let isAnySilent = false;
    while (left.size > 0) {
      const builder = [...left].reduce((best, one) => (one.load < best.load ? one : best));
      left.delete(builder);
      builder.load += 1;
      let able: boolean | undefined;
      try {
        able = await isAble(builder, signal);
      } finally {
        if (able !== true) builder.load -= 1;
      }
      if (able === true) return builder;
      if (able === undefined) isAnySilent = true;
    }
    throw isAnySilent ? new BuilderLost('No builder answers', false) : classicStore();
  };

  return {
    isComing,

    async untilThere(signal) {
      await unlessAborted(find(), signal);
    },

    async use(signal, work) {
      const builder = await choose(signal);
      try {
        return await work(builder.client);
      } finally {
        builder.load -= 1;
      }
    },

    async require() {
      if (isComing()) return;
      const addresses = await find();
      if (addresses.length === 0) throw noBuilder();
      if (!addresses.every(isInDocker)) return;
      // One that does not answer now may do so when its turn has come.
      const able = await Promise.all((await known()).map(builder => isAble(builder)));
      if (able.every(answer => answer === false)) throw classicStore();
    },

    async close() {
      for (const { client } of builders.values()) client.close();
    },
  };
}

async function unlessAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  signal.throwIfAborted();
  const { promise, reject } = Promise.withResolvers<never>();
  const stop = () => reject(signal.reason);
  signal.addEventListener('abort', stop, { once: true });
  try {
    return await Promise.race([work, promise]);
  } finally {
    signal.removeEventListener('abort', stop);
  }
}

const howToGetOne =
  "have its operator start one (docker run -d --privileged --name buildkitd -v /run/buildkit:/run/buildkit moby/buildkit, or 'npm run buildkit' on Debian) or name one with SLUICE_BUILDKIT";

function noBuilder(): Fault {
  const message = `This server has no builder: ${howToGetOne}`;
  return new Fault('unavailable', message, { phase: 'build' });
}

function classicStore(): Fault {
  const message = `The only builder of this server is in a Docker engine with the classic image store, which cannot push what it builds: have its operator switch on the containerd image store (Docker 23 or newer: "features": {"containerd-snapshotter": true} in /etc/docker/daemon.json), or ${howToGetOne}`;
  return new Fault('unavailable', message, { phase: 'build' });
}
