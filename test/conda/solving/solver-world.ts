import type { TestContext } from 'node:test';
import { createChannelAccess } from '../../../src/conda/channels/channel-access.ts';
import {
  type ChannelSettings,
  hostsOfChannels,
} from '../../../src/conda/channels/channel-settings.ts';
import {
  createRepodataStore,
  type RepodataStoreDeps,
} from '../../../src/conda/repodata/repodata-store.ts';
import { createShardStore } from '../../../src/conda/repodata/shard-store.ts';
import {
  createCondaSolver,
  type SolveLimits,
} from '../../../src/conda/solving/create-conda-solver.ts';
import { unlimitedSpace } from '../../../src/storage/directory/disk-space.ts';
import { withoutReach } from '../../../src/upstream/registry-settings.ts';
import { createTransport } from '../../../src/upstream/transport/transport.ts';
import { makeTempDir } from '../../world/temp-dir.ts';

const timeouts = { connectMs: 5000, headersMs: 5000, idleMs: 5000 };

export interface SolverWorldOptions {
  readonly limits?: Partial<SolveLimits>;
  readonly repodata?: Partial<RepodataStoreDeps>;
  /** Where repository data is kept. Default: a new directory. */
  readonly directory?: string;
}

/** A channel of the tests, which is at a closed address. */
export function listed(url: string, more: Partial<ChannelSettings> = {}): ChannelSettings {
  return { keys: [], url, mirrors: [], allowPrivateAddress: true, ...more };
}

/** Returns access to the listed channels. */
export function accessTo(t: TestContext, channels: readonly ChannelSettings[]) {
  const hosts = hostsOfChannels(channels);
  const transport = createTransport(hosts, timeouts);
  const guarded = createTransport(withoutReach(hosts), timeouts);
  t.after(() => Promise.all([transport.close(), guarded.close()]));
  const retry = { attempts: 2, firstDelayMs: 10, longestDelayMs: 100 };
  return createChannelAccess({ channels, transport, guarded, retry });
}

/** Returns a solver for the listed channels, with all that it needs. */
export async function solverFor(
  t: TestContext,
  channels: readonly ChannelSettings[],
  options: SolverWorldOptions = {},
) {
  const temporary = await makeTempDir('repodata');
  t.after(() => temporary.remove());
  const directory = options.directory ?? temporary.path;
  const access = accessTo(t, channels);
  const repodata = createRepodataStore({
    channels: access,
    space: unlimitedSpace,
    maxFileBytes: 2 ** 31,
    directory: `${directory}/subdirectories`,
    freshMs: 60_000,
    timeoutMs: 300_000,
    maxBytes: 2 ** 32,
    log: { warn() {} },
    ...options.repodata,
  });
  const shards = createShardStore({
    channels: access,
    directory: `${directory}/shards`,
    maxBytes: 2 ** 30,
  });
  const solver = createCondaSolver({
    ...{ channels: access, repodata, shards },
    limits: { timeout: 60_000, memory: 128 * 2 ** 20, maxWaiting: 100, ...options.limits },
  });
  t.after(async () => {
    await solver.close();
    await repodata.close();
  });
  return { solver, repodata, shards, directory };
}
