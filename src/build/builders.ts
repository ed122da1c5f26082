import type { BuildkitClient } from '../buildkit/index.ts';
import { Fault } from '../fault.ts';
import type { Logger } from '../telemetry.ts';

/** The builder went away in the middle: another one, or another try, may do. */
export class BuilderLost extends Fault {
  constructor(message: string, cause: unknown) {
    super('unavailable', message, { phase: 'build', cause });
  }
}

/** The builders there are. */
export interface Builders {
  /**
   * Runs the work on the healthy builder with the least of it. Throws a {@link Fault} (503) that tells
   * how to get a builder when there is none.
   */
  use<T>(signal: AbortSignal, work: (client: BuildkitClient) => Promise<T>): Promise<T>;
  /** True while there is none yet, but one is being installed: {@link use} waits for it. */
  isComing(): boolean;
  /** Throws like {@link use} when builds are not possible at all. */
  require(): Promise<void>;
  close(): Promise<void>;
}

/** Finds the addresses of builders; resolves late while one is being brought along. */
export type FindBuilders = () => Promise<readonly string[]>;

interface Builder {
  readonly address: string;
  readonly client: BuildkitClient;
  load: number;
}

const healthMs = 3000;

/** @param isComing true while a builder is being brought along */
export function createBuilders(find: FindBuilders, isComing: () => boolean, log: Logger): Builders {
  const builders = new Map<string, Promise<Builder>>();

  const builderAt = (address: string): Promise<Builder> => {
    let builder = builders.get(address);
    if (!builder) {
      builder = openBuilder(address);
      builders.set(address, builder);
    }
    return builder;
  };

  const isHealthy = async ({ client, address }: Builder): Promise<boolean> => {
    try {
      await client.info({ timeoutMs: healthMs });
      return true;
    } catch (err) {
      log.warn({ builder: address, err }, 'the builder does not answer');
      return false;
    }
  };

  const choose = async (): Promise<Builder> => {
    const candidates = await Promise.all((await find()).map(builderAt));
    for (const builder of candidates.toSorted((one, other) => one.load - other.load)) {
      if (await isHealthy(builder)) return builder;
    }
    throw candidates.length === 0 ? noBuilder() : noAnswer(candidates);
  };

  return {
    isComing,

    async use(signal, work) {
      const builder = await unlessAborted(choose(), signal);
      builder.load += 1;
      try {
        return await work(builder.client);
      } finally {
        builder.load -= 1;
      }
    },

    async require() {
      if (!isComing() && (await find()).length === 0) throw noBuilder();
    },

    async close() {
      for (const { client } of await Promise.all(builders.values())) client.close();
    },
  };
}

/** The client is loaded when it is first needed: gRPC takes a third of the time of a start. */
async function openBuilder(address: string): Promise<Builder> {
  const { connect } = await import('../buildkit/index.ts');
  return { address, client: connect(address), load: 0 };
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

function noBuilder(): Fault {
  return new Fault(
    'unavailable',
    "This server has no builder: have its operator start one (docker run -d --privileged --name buildkitd -v /run/buildkit:/run/buildkit moby/buildkit, or 'npm run buildkit' on Debian) or name one with SLUICE_BUILDKIT",
    { phase: 'build' },
  );
}

function noAnswer(builders: readonly Builder[]): Fault {
  const addresses = builders.map(({ address }) => address).join(', ');
  return new Fault('unavailable', `No builder answers (${addresses}): try again later`, {
    phase: 'build',
    retryAfterSeconds: 30,
  });
}
