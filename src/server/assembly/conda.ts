import { createHmac } from 'node:crypto';
import { fileURLToPath } from 'node:url';
import {
  createArchiveFetch,
  createBaseForms,
  createBaseLibc,
  createBuilderChannels,
  createChannelAccess,
  createChannelSummaries,
  createCondaSolver,
  createKeptLayers,
  createKeptSteps,
  createLayerForms,
  createLayerThreads,
  createPackageLayers,
  createPackageSearch,
  createRepodataStore,
  createShardStore,
  hostsOfChannels,
  readLock,
} from '../../conda/index.ts';
import {
  createAddressedWheels,
  createBuilderIndexes,
  createCommitFinder,
  createIndexAccess,
  createKeptFiles,
  createKeptWheels,
  createLoopbackIndex,
  createMixedLayers,
  createPageStore,
  createPageThread,
  createProjectSearch,
  createPythonSolver,
  createRepositoryReader,
  createUvProgram,
  createWheelMetadataSource,
  createWheelThreads,
  hostsOfIndexes,
} from '../../pypi/index.ts';
import type { AnonymousShare } from '../../storage/rows/index.ts';
import { createTransport, withoutReach } from '../../upstream/index.ts';
import { configuredChannels, configuredIndexes } from '../config/read/index.ts';
import type { RegistryAccess } from './registry-clients.ts';
import type { AppDeps, State } from './server-state.ts';

/** The channels of Conda, the solver of environments, and what makes layers of packages. */
export type Conda = ReturnType<typeof createConda>;

export function createConda(
  deps: AppDeps,
  { content, rows, space, pathOf, tally, signingKey }: State,
  { connecting, settings }: Pick<RegistryAccess, 'connecting' | 'settings'>,
) {
  const { config, log } = deps;
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
  const python = createPython(deps, { space, pathOf, signingKey }, { connecting });
  // A builder fetches repositories, and reaches these hosts.
  const repositories = createTransport(
    withoutReach(settings),
    timeouts,
    config.builds.privateHosts,
    bounds,
  );
  const wheelThreads = createWheelThreads(limits.threads);
  const keptWheels = createKeptWheels({
    content,
    cachedBlobs: rows.cachedBlobs,
    rows: rows.packageLayers,
  });
  const fetchWheel = createArchiveFetch({ channels: python.access, content, limits });
  const layers = createMixedLayers({
    packageLayers: createPackageLayers({ content, kept, fetchArchive, limits, tally }),
    kept: createKeptLayers({
      content,
      cachedBlobs: rows.cachedBlobs,
      rows: rows.packageLayers,
      threads: wheelThreads,
    }),
    fetchWheel: keptWheels.fetching(fetchWheel),
    limits,
    tally,
  });
  return {
    channels: access,
    builderReach: {
      ...createBuilderChannels(channels),
      indexes: createBuilderIndexes(configuredIndexes(config)),
    },
    solver,
    packageSearch: createPackageSearch({ channels: access, repodata, shards, summaries }),
    baseLibc: createBaseLibc(pathOf('conda/bases.json')),
    layers,
    reformLayers: createLayerForms({ content, kept }),
    baseForms: (share: AnonymousShare) =>
      createBaseForms({ kept, share, maxBytes: limits.maxUnpackedBytes }),
    keptWheels,
    keptSteps: createKeptSteps({
      content,
      cachedBlobs: rows.cachedBlobs,
      rows: rows.packageLayers,
    }),
    fetchWheel,
    packageLimits: limits,
    readLock,
    pythonSolver: python.solver,
    projectSearch: python.search,
    uv: python.uv,
    commits: createCommitFinder(repositories),
    addressed: createAddressedWheels(fetchWheel),
    repositories: createRepositoryReader(repositories, pathOf('pypi/solving')),
    async close() {
      await solver.close();
      await Promise.all([
        repodata.close(),
        summaries.close(),
        threads.close(),
        wheelThreads.close(),
      ]);
      const transports = [transport, guarded, repositories];
      await Promise.all([...transports.map(one => one.close()), python.close()]);
    },
  };
}

const pageBytes = 512 * 1024 * 1024;

/** The indexes of Python packages, and what chooses packages of them. */
function createPython(
  { config, log, bringUv }: Pick<AppDeps, 'config' | 'log' | 'bringUv'>,
  { space, pathOf, signingKey }: Pick<State, 'space' | 'pathOf' | 'signingKey'>,
  { connecting }: Pick<RegistryAccess, 'connecting'>,
) {
  const { timeouts, bounds, retry } = connecting;
  const indexes = configuredIndexes(config);
  const hosts = hostsOfIndexes(indexes);
  const transport = createTransport(hosts, timeouts, [], bounds);
  const guarded = createTransport(withoutReach(hosts), timeouts, [], bounds);
  const access = createIndexAccess({ indexes, transport, guarded, retry });
  const thread = createPageThread();
  const key = createHmac('sha256', signingKey).update('pages of Python indexes').digest();
  const pagesAt = pathOf('pypi/pages');
  const kept = createKeptFiles({ directory: pagesAt, space, key, maxBytes: pageBytes });
  const freshMs = config.conda.repodata.fresh;
  const pages = createPageStore({ access, thread, kept, key, freshMs });
  const metadata = createWheelMetadataSource({ access, kept });
  const index = createLoopbackIndex({ access, pages, metadata, key });
  const folders = [fileURLToPath(new URL('../../../.uv', import.meta.url))];
  const isWanted = config.builds.uv === 'auto';
  const uv = createUvProgram({ configured: isWanted ? undefined : config.builds.uv, folders });
  const directory = pathOf('pypi/solving');
  const closing = new AbortController();
  if (bringUv && isWanted && !uv.isThere()) {
    bringUv(closing.signal, line => log.debug({ line }, 'installing uv')).then(
      () => log.info('uv is installed: images with packages of pip require no builder'),
      err => {
        if (closing.signal.aborted) return;
        log.warn({ err }, 'cannot install uv: images with packages of pip require a builder');
      },
    );
  }
  const solver = createPythonSolver({
    index,
    directory,
    findUv: uv.path,
    limits: config.conda.solve,
  });
  return {
    access,
    solver,
    search: createProjectSearch({ pages, thread, isOffered: uv.isThere }),
    uv,
    async close() {
      closing.abort();
      await index.close();
      await Promise.all([thread.close(), transport.close(), guarded.close()]);
    },
  };
}
