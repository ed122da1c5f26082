import {
  createArchiveFetch,
  createBaseLibc,
  createBuilderChannels,
  createChannelAccess,
  createChannelSummaries,
  createCondaSolver,
  createKeptLayers,
  createLayerThreads,
  createPackageLayers,
  createPackageSearch,
  createRepodataStore,
  createShardStore,
  hostsOfChannels,
  readLock,
} from '../../conda/index.ts';
import { createTransport, withoutReach } from '../../upstream/index.ts';
import { configuredChannels } from '../config/read/index.ts';
import type { RegistryAccess } from './registry-clients.ts';
import type { AppDeps, State } from './server-state.ts';

/** The channels of Conda, the solver of environments, and what makes layers of packages. */
export type Conda = ReturnType<typeof createConda>;

export function createConda(
  { config, log }: AppDeps,
  { content, rows, space, pathOf, tally }: State,
  { connecting }: Pick<RegistryAccess, 'connecting'>,
) {
  const { timeouts, bounds, retry } = connecting;
  const channels = configuredChannels(config);
  const hosts = hostsOfChannels(channels);
  const transport = createTransport(hosts, timeouts, [], bounds);
  const guarded = createTransport(withoutReach(hosts), timeouts, [], bounds);
  const access = createChannelAccess({ channels, transport, guarded, retry });
  const { solve, repodata: repodataLimits } = config.conda;
  const repodata = createRepodataStore({
    channels: access,
    space,
    log,
    directory: pathOf('conda/repodata'),
    freshMs: repodataLimits.fresh,
    timeoutMs: repodataLimits.timeout,
    // Shards of channels that have them take the other half.
    maxBytes: repodataLimits.maxBytes / 2,
    maxFileBytes: repodataLimits.maxFileBytes,
  });
  const shards = createShardStore({
    channels: access,
    directory: pathOf('conda/shards'),
    maxBytes: repodataLimits.maxBytes / 2,
  });
  const summaries = createChannelSummaries({ channels: access });
  const solver = createCondaSolver({ channels: access, repodata, shards, limits: solve });
  const limits = config.conda.packages;
  const threads = createLayerThreads(limits.threads);
  const kept = createKeptLayers({
    content,
    cachedBlobs: rows.cachedBlobs,
    rows: rows.packageLayers,
    threads,
  });
  const fetchArchive = createArchiveFetch({ channels: access, content, limits });
  const layers = createPackageLayers({ content, kept, fetchArchive, limits, tally });
  return {
    channels: access,
    builderChannels: createBuilderChannels(channels),
    solver,
    packageSearch: createPackageSearch({ channels: access, repodata, shards, summaries }),
    baseLibc: createBaseLibc(pathOf('conda/bases.json')),
    layers,
    readLock,
    async close() {
      await solver.close();
      await Promise.all([repodata.close(), summaries.close(), threads.close()]);
      await Promise.all([transport.close(), guarded.close()]);
    },
  };
}
