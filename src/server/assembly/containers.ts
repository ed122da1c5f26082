import { totalmem } from 'node:os';
import { fileURLToPath } from 'node:url';
import {
  accessInOwnRight,
  type ContainmentOptions,
  closedSourceRules,
  createBuildService,
  type FindServedBase,
  findBuilders,
} from '../../builds/index.ts';
import type { BuildPlaces } from '../../builds/plan/index.ts';
import {
  createBaseResolver,
  createDocuments,
  createImageMaker,
  createRightWatch,
  rightGraceMs,
} from '../../images/index.ts';
import { createLayerListings } from '../../images/listing/index.ts';
import { parseReference } from '../../oci/naming.ts';
import type { SealedGrant } from '../../platform/index.ts';
import {
  createAwaitBuild,
  createCheckRight,
  createFindBuilt,
  createFindServedBase,
  createImageFinder,
  createKeptRights,
  createLentImages,
  type ImageFinder,
} from '../../pull/index.ts';
import {
  type ContainerRequest,
  createAccept,
  createBaseFinder,
  createBuildIntake,
  createDryRun,
  createFindRun,
  createFindServed,
  createGrantContexts,
  createIncludedImages,
  createInspect,
  createLayerSource,
  createOpenInspected,
  createOpenLayers,
  createOpenRequest,
  createOpenServed,
  createTakeContext,
  createUploadedContexts,
  type FindServed,
} from '../../request/index.ts';
import { createTokenRegistry } from '../../request/tokens/index.ts';
import { createLayerIntake } from '../../request/without-server.ts';
import type { ContentStore } from '../../storage/content/index.ts';
import { createAnonymousShare } from '../../storage/rows/index.ts';
import { credentialKey } from '../../upstream/auth/index.ts';
import { type Access, fetchUrl, type Registries } from '../../upstream/index.ts';
import type { Config } from '../config/index.ts';
import {
  accessRules,
  configuredBuilderShares,
  configuredBuilderTls,
  configuredShares,
  configuredSifSigner,
} from '../config/read/index.ts';
import type { Conda } from './conda.ts';
import type { People } from './people.ts';
import { createBlobParts, createVerifyBases, type RegistryAccess } from './registry-clients.ts';
import type { AppDeps, State } from './server-state.ts';
import { createSiteScans, requireScan } from './site-scans.ts';

/** The parts that accept container requests and build images for them. */
export type Containers = ReturnType<typeof createContainers>;

function keyOfAccess({ isService, credentials }: Access): string {
  return isService ? 'service' : credentialKey(credentials);
}

/** Returns the content store for callers that only read. */
function withoutWrites(content: ContentStore): ContentStore {
  return { ...content, write: async () => {} };
}

// How often content in use is marked within the grace time of the sweep.
const renewalsInGrace = 4;

export function createContainers(
  deps: AppDeps,
  state: State,
  registries: RegistryAccess,
  { identities }: People,
  conda: Conda,
  places: BuildPlaces,
) {
  const { config, log, bringBuilder, publicUrl } = deps;
  const { content, cachedBlobs, pathOf } = state;
  const { registry, pusher, ownHost, hosted, urlOf, isPlainHttp } = registries;
  const { credentialsOf, serviceCredentialsOf, isOfService } = identities;
  const share = createAnonymousShare(state.rows.anonymousUse, config.anonymous);
  const renewMs = config.sweep.grace / renewalsInGrace;
  const documents = createDocuments(content, registry, renewMs, share);
  // For inspections and dry runs, which store nothing and so cannot fill the disk.
  const transient = createDocuments(withoutWrites(content), registry, renewMs, share);
  const makeImage = createImageMaker(documents);
  const bases = createBaseResolver(registry, documents, keyOfAccess);
  const rights = createRightWatch({
    registry,
    ownHost,
    lifeMs: config.rightLife,
    graceMs: rightGraceMs,
  });
  const accessToBuilt = (
    image: Pick<Access, 'registry' | 'repository'>,
    grant: SealedGrant | undefined,
  ) => accessInOwnRight(image, ownHost, serviceCredentialsOf(grant));
  const common = { registry, pusher, credentialsOf, ownHost };
  const { syntax, conda: condaMaker, cacheMounts } = config.builds;
  const condaChannels = conda.builderReach;
  const sharesMounts = cacheMounts === 'owner';
  const buildPlaces = {
    ...places,
    syntax,
    conda: condaMaker,
    condaChannels,
    sharesMounts,
    solvesPython: conda.uv.isThere,
  };
  const servedNameStart = `${ownHost}/${config.prefix}`;
  const lentImages = createLentImages({ documents, servedNameStart });
  const blobParts = createBlobParts(deps, state, registries);
  const findServedBase: FindServedBase = image => findByServedName(image);
  const service = createBuildService({
    ...common,
    credentialsOf: serviceCredentialsOf,
    signingKey: state.signingKey,
    limitsOf: identities.limitsOf,
    announce: registries.announce,
    mailOf: identities.mailOf,
    store: state.rows.builds,
    logDirectory: pathOf('logs/builds'),
    logArchive: state.buildLogs,
    found: findBuilders({
      configured: config.buildkit,
      directory: pathOf('buildkit'),
      folders: [fileURLToPath(new URL('../../../.buildkit', import.meta.url))],
      plainHttp: [...registries.settings.keys()].filter(isPlainHttp),
      open: config.builds.openBuilders,
      shares: configuredBuilderShares(config),
      containment: containmentOf(config, registries.settings),
      anonymousReach: anonymousReach(registries.settings, ownHost, buildPlaces.cache),
      bring: bringBuilder,
      log,
    }),
    builderTls: configuredBuilderTls(config),
    content,
    documents,
    bases,
    verify: createVerifyBases(deps, state, registries, blobParts),
    offer: lentImages.offer,
    findServedBase,
    conda: { ...conda, reformBaseLayer: conda.baseForms(share) },
    makeImage,
    tokens: hosted.tokens,
    fetchToken: registries.fetchToken,
    isClosed: host => registries.settings.get(host)?.allowPrivateAddress === true,
    limits: { ...config.builds, ...configuredShares(config, publicUrl) },
    sourceRules: closedSourceRules(
      privateRegistries(registries.settings),
      config.builds.privateHosts,
      ownHost,
    ),
    places: buildPlaces,
    sifDirectory: pathOf('sif'),
    sif: { ...config.sif, signer: configuredSifSigner(config.sif.signingKey) },
    space: state.space,
    hosted: hosted.manifests,
    repositories: state.hosted.repositories,
    hostedBytes: state.hosted.bytesBelow,
    maxAnonymousBytes: config.anonymous.maxBuildBytes,
    log,
    tally: state.tally,
    health: state.remotes,
  });
  const logUrlOf = (id: string) => new URL(`/v1alpha1/builds/${id}/logs`, publicUrl).href;
  const pageUrlOf = (id: string) => new URL(`/view/builds/${id}`, publicUrl).href;
  const building = { ...service, pageUrlOf };
  const layers = createLayerIntake({
    content,
    cachedBlobs,
    fetched: state.rows.fetchedLayers,
    source: createLayerSource({
      fetch: (url, signal) => fetchUrl(registries.layerTransport, url, signal),
      registry,
      credentialsOf,
      registries: registries.settings,
    }),
    limits: config.layers,
    share,
  });
  const { builds } = building;
  const build = createBuildIntake({
    ...common,
    limitsOf: identities.limitsOf,
    places: buildPlaces,
    builds,
    // Checks only: the build makes and stores the image.
    makeImage: createImageMaker(transient),
    takeContext: createTakeContext(layers, createUploadedContexts({ content, ...hosted, ownHost })),
    rights,
    documents,
    findServedBase,
    servedNameStart,
    isOfService,
  });
  const baseOf = createBaseFinder(bases);
  const transientBases = createBaseResolver(registry, transient, keyOfAccess);
  const { isCurrent } = state.rows;
  const { maxLife, runLease, onlyFrozen } = config.tokens;
  const lives = { maxLifeMs: Math.max(config.tokenLife, maxLife), runLeaseMs: runLease };
  const tokens = createTokenRegistry(state.rows.requests, config.tokenLife, share, {
    ...lives,
    isCurrent,
  });
  const findServed = createFindServed({
    tokens,
    ownHost,
    servedPrefix: `${config.prefix}/`,
    isOpen: accessRules(config, publicUrl).pulls === 'open',
  });
  const checkRight = createCheckRight({
    identities,
    accessToBuilt,
    builds,
    findServed,
    ownHost,
    watch: rights,
    lifeMs: config.rightLife,
    graceMs: rightGraceMs,
  });
  const findUnscanned = createImageFinder({
    documents,
    makeImage,
    checkRight,
    findBuilt: createFindBuilt(builds, config.builds.pullWait, logUrlOf),
  });
  const scans = createSiteScans(deps, state, registries, lentImages, findUnscanned, documents);
  // Every use of a served image passes here: pulls, builds that begin with it, its inspection.
  const findImage: ImageFinder = async request => {
    const image = await findUnscanned(request);
    await requireScan(scans, config.scans, request);
    return image;
  };
  // Without the access, so that these 50,000 hold no credentials.
  const keptRight = createKeptRights(async request => {
    const { until } = await checkRight(request);
    return { until };
  });
  /** Does the same without the image, and without waiting for a build or a scan. */
  const requireRight = async (request: ContainerRequest): Promise<void> => {
    await keptRight(request);
    await requireScan(scans, config.scans, request, 0);
  };
  // A request that begins with a served name is a use of that image too.
  const findUsable: FindServed = async reference => {
    const request = await findServed(reference);
    if (request) await requireScan(scans, config.scans, request);
    return request;
  };
  const findByServedName = createFindServedBase({ findServed, findImage, documents });
  const includes = createIncludedImages({
    bases,
    documents,
    registry,
    layers,
    credentialsOf,
    findServed,
    rights,
  });
  const accept = createAccept({
    includes,
    findServed: findUsable,
    findRun: createFindRun(identities),
    onlyFrozen,
    build,
    places,
    accessToBuilt,
    baseOf,
    manifest: documents.manifest,
    makeImage,
    layers,
    tokens,
    rights,
    credentialsOf,
    servedNameStart,
    mountedLayers: config.layers.mounted,
  });
  const dryRun = createDryRun({
    includes,
    solutionOf: service.solutionOf,
    requireBuilder: service.requireBuilder,
    findServed: findUsable,
    baseOf: createBaseFinder(transientBases),
    layers,
    build,
    places,
    onlyFrozen,
    registry,
    pusher,
    identities,
    accessToBuilt,
  });
  const openRequest = createOpenRequest({ findImage, documents: transient });
  const openInspected = createOpenInspected({
    bases: transientBases,
    documents: transient,
    openServed: createOpenServed(findServed, openRequest),
  });
  const layerListings = createLayerListings({ files: state.listings, log });
  const openLayers = createOpenLayers({ registry, content });
  const inspect = createInspect({ openInspected, registry, urlOf });
  const grantContexts = createGrantContexts({ tokens: hosted.tokens, share });
  return {
    documents,
    building,
    tokens,
    lives,
    findImage,
    requireRight,
    scans,
    openRequest,
    lentImages,
    blobParts,
    accept,
    dryRun,
    inspect,
    openInspected,
    registry,
    grantContexts,
    layerListings,
    openLayers,
    awaitBuild: createAwaitBuild(building.builds, config.builds.pullWait),
  };
}

const mostBuildMemory = 8 * 2 ** 30;
// Memory that all builds together leave for the server and the rest of the machine.
const sharedMemory = 0.75;

/** Returns the registries that the builder of Sluice may connect to, and the limits of its builds. */
function containmentOf(
  { builds: { each, concurrent, privateHosts, builderDisk } }: Config,
  registries: Registries,
): ContainmentOptions {
  // The memory of the machine, or of the container in which the server runs.
  const memory = Math.min(totalmem(), process.constrainedMemory() || Number.POSITIVE_INFINITY);
  const memoryBytes = each.memory ?? Math.min(memory / 2, mostBuildMemory);
  const limits = {
    memoryBytes: Math.floor(memoryBytes),
    processes: each.processes,
    processors: each.processors,
  };
  const together = Math.min(concurrent * memoryBytes, memory * sharedMemory);
  return {
    openHosts: {
      builder: privateRegistries(registries),
      steps: privateHosts,
    },
    each: limits,
    all: {
      memoryBytes: Math.floor(Math.max(memoryBytes, together)),
      processes: concurrent * each.processes,
      processors: each.processors === undefined ? undefined : concurrent * each.processors,
    },
    buildDiskBytes: each.disk,
    stateBytes: builderDisk,
  };
}

/** Returns the listed registries that may be at a private address, each with its port. */
function privateRegistries(registries: Registries): string[] {
  return [...registries]
    .filter(([, { allowPrivateAddress }]) => allowPrivateAddress)
    .map(([host, { plainHttp }]) => withPort(host, plainHttp ? 80 : 443));
}

/** Returns those of them that builds of anonymous callers require: this server, and the registry of its layer cache. */
function anonymousReach(
  registries: Registries,
  ownHost: string,
  cache: string | undefined,
): string[] {
  const hosts = [ownHost, ...(cache === undefined ? [] : [parseReference(cache).registry])];
  return privateRegistries(new Map([...registries].filter(([host]) => hosts.includes(host))));
}

function withPort(host: string, port: number): string {
  return /:\d+$/.test(host) ? host : `${host}:${port}`;
}
