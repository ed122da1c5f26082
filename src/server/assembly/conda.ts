import { createBaseLibc } from '../../conda/base/base-libc.ts';
import { createBuilderChannels } from '../../conda/channels/builder-channels.ts';
import { hostsOfChannels } from '../../conda/channels/channel-settings.ts';
import { createChannelAccess } from '../../conda/channels/create-channel-access.ts';
import { createPackageLayers } from '../../conda/layers/create-package-layers.ts';
import { createArchiveFetch } from '../../conda/layers/fetching/archive-fetch.ts';
import { createKeptLayers } from '../../conda/layers/kept-layers.ts';
import { createLayerThreads } from '../../conda/layers/making/layer-threads.ts';
import { readLock } from '../../conda/locks/read-lock.ts';
import { createRepodataStore } from '../../conda/repodata/repodata-store.ts';
import { createShardStore } from '../../conda/repodata/shard-store.ts';
import { createChannelSummaries } from '../../conda/search/channel-summaries.ts';
import { createPackageSearch } from '../../conda/search/package-search.ts';
import { createCondaSolver } from '../../conda/solving/create-conda-solver.ts';
import { withoutReach } from '../../upstream/registry-settings.ts';
import { createTransport } from '../../upstream/transport/transport.ts';
import { configuredChannels } from '../config/read/conda-channels.ts';
import type { AppDeps } from './app-deps.ts';
import type { RegistryAccess } from './registry-clients.ts';
import type { State } from './server-state.ts';

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
