import type { SourceRule, TlsFiles } from '../buildkit/index.ts';
import type {
  ChannelAccess,
  FetchArchive,
  KeptSteps,
  ReformBaseLayer,
  ReformLayers,
} from '../conda/index.ts';
import type { Tally } from '../foundation/telemetry/counted.ts';
import type { Logger, RemoteHealth } from '../foundation/telemetry/index.ts';
import { closeInTurn } from '../foundation/work.ts';
import type { HostedManifests, RegistryTokens } from '../hosted/index.ts';
import {
  type BaseResolver,
  createAttach,
  createMirror,
  createNoteByTag,
  createPublish,
  type Documents,
  type ImageMaker,
  type VerifyImage,
} from '../images/index.ts';
import type { Announce } from '../messages/index.ts';
import { supportedPlatforms } from '../oci/naming.ts';
import type { SealedGrant } from '../platform/index.ts';
import type { CommitFinder, KeptWheels, MixedLayers, RepositoryReader } from '../pypi/index.ts';
import type { ContentStore } from '../storage/content/index.ts';
import type { DiskSpace } from '../storage/directory/index.ts';
import type { BuildStore, HostedStore, HostedSums } from '../storage/rows/index.ts';
import type { CredentialSource } from '../upstream/auth/index.ts';
import type { FetchToken, PushClient, RegistryClient } from '../upstream/index.ts';
import type { Shares } from './build-limits.ts';
import { type BuilderState, createBuilderTls } from './builder/builder-connections.ts';
import { createBuilders } from './builder/builders.ts';
import type { FoundBuilders } from './builder/find-builders.ts';
import { findWorkerPods } from './builder/worker-pods.ts';
import { type Builds, createBuilds } from './builds.ts';
import { createLabelOf, domainOfCaller, mustBeAlone, type TrustDomain } from './domain.ts';
import { archivedLogs, type LogArchive } from './logs/archived-logs.ts';
import { type BuildLogs, createBuildLogs } from './logs/build-logs.ts';
import { needsBuilder, recipeIn } from './plan/build-plan.ts';
import type { BuildPlaces } from './plan/plan.ts';
import { createMessagesOf } from './runs/build-messages.ts';
import type { FindServedBase } from './solve/bases/base-check.ts';
import { createCompressBase } from './solve/bases/compress-base.ts';
import { createPrepareBases, type OfferImage } from './solve/bases/prepare-bases.ts';
import { createBuildRights } from './solve/build-rights.ts';
import { withReasons } from './solve/conda/builder-required.ts';
import { createFindSolution, type FindSolutionDeps } from './solve/conda/find-solution.ts';
import { createReadOwnLock } from './solve/conda/kept-documents.ts';
import { createMakeCondaImage } from './solve/conda/make-conda-image.ts';
import { createSolutionOf, type SolutionOf } from './solve/conda/solution-of.ts';
import { createDatedLayers } from './solve/dating/dated-layers.ts';
import { createRedateImage } from './solve/dating/redate-image.ts';
import type { RunRecipe } from './solve/run-recipe.ts';
import type { RunScripts } from './solve/scripts/run-scripts.ts';
import { createScriptLayers } from './solve/scripts/script-layers.ts';
import type { MakeSif, SifSettings } from './solve/sif/make-sif.ts';
import type { StageSifBases } from './solve/sif/stage-sif-bases.ts';
import { createSolve } from './solve/solve.ts';
import { createStagedImages } from './solve/staged-images.ts';
import { createWheelBuilds } from './solve/wheels/build-wheels.ts';
import type { RunWheelBuild } from './solve/wheels/run-wheel-build.ts';
import { createTargetRepository } from './target-repository.ts';

/** The builds of this server, with all their dependencies. */
export interface BuildService {
  readonly builds: Builds;
  readonly logs: BuildLogs;
  /** Returns the packages that a plan would install, without making anything; undefined for other plans. */
  readonly solutionOf: SolutionOf;
  /** Throws a `Fault` when there is no builder for the user, or for callers without a login. */
  requireBuilder(user: string | undefined): Promise<void>;
  /** Returns the builders that were used since the start. */
  builderStates(): readonly BuilderState[];
  /** Removes the intermediate images of builds that have ended. */
  removeStagedImages(signal: AbortSignal): Promise<void>;
  close(): Promise<void>;
}

/** The parts of the server for packages of Conda and of PyPI. */
export interface CondaParts
  extends Pick<
    FindSolutionDeps,
    'solver' | 'readLock' | 'baseLibc' | 'pythonSolver' | 'uv' | 'addressed'
  > {
  readonly commits: CommitFinder;
  readonly repositories: RepositoryReader;
  readonly channels: ChannelAccess;
  readonly layers: MixedLayers;
  readonly reformLayers: ReformLayers;
  readonly reformBaseLayer: ReformBaseLayer;
  readonly keptWheels: KeptWheels;
  /** Fetches files of indexes of Python packages. */
  readonly fetchWheel: FetchArchive;
  readonly keptSteps: KeptSteps;
  /** Limits of one package, and of what a builder makes of it. */
  readonly packageLimits: {
    /** Bytes of its archive. */
    readonly maxArchiveBytes: number;
    readonly maxUnpackedBytes: number;
    readonly maxFiles: number;
  };
}

export interface BuildServiceDeps {
  readonly store: BuildStore;
  readonly logDirectory: string;
  /** Keeps the logs for the other servers of the site. */
  readonly logArchive?: LogArchive | undefined;
  readonly found: FoundBuilders;
  /** Certificate files of builders by address. */
  readonly builderTls: ReadonlyMap<string, TlsFiles>;
  readonly content: ContentStore;
  readonly documents: Documents;
  readonly makeImage: ImageMaker;
  readonly bases: BaseResolver;
  readonly verify: VerifyImage;
  readonly offer: OfferImage;
  readonly findServedBase: FindServedBase;
  readonly registry: RegistryClient;
  readonly pusher: PushClient;
  readonly credentialsOf: (grant: SealedGrant | undefined) => CredentialSource;
  /** Returns what the access token of a caller is limited to; empty for no limit. */
  readonly limitsOf: (grant: SealedGrant | undefined) => string;
  /** Returns the messages about an event. */
  readonly announce: Announce;
  /** Returns the e-mail address of a caller who wants to know the end of a build. Never throws. */
  readonly mailOf: (grant: SealedGrant | undefined, succeeded: boolean) => string | undefined;
  readonly tokens: RegistryTokens;
  /** The key of the service: all replicas have the same. */
  readonly signingKey: Uint8Array;
  readonly fetchToken: FetchToken;
  /** Host of the hosted registry. */
  readonly ownHost: string;
  /** Returns true for a registry that may have a closed address. */
  readonly isClosed: (registry: string) => boolean;
  readonly limits: {
    /** Simultaneous builds on builders, and of those without a builder. */
    readonly concurrent: Shares;
    /** Running and waiting builds. */
    readonly waiting: Shares;
    /** Time limit of a build (ms). */
    readonly timeLimit: number;
    /** Time limit for trusted callers (ms). */
    readonly trustedTimeLimit: number;
    /** How long a failure is the response to the same request (ms). */
    readonly retryAfter: number;
    /** How long finished builds are kept (ms). */
    readonly keep: number;
    /** How long failed builds are kept (ms). */
    readonly keepFailed: number;
    /** How long builds of anonymous callers are kept (ms). */
    readonly keepAnonymous: number;
    /** True to also read caches that requests name. */
    readonly trustCaches: boolean;
  };
  /** What makes images of Conda packages without a builder. */
  readonly conda: CondaParts;
  readonly sourceRules: readonly SourceRule[];
  readonly places: BuildPlaces;
  /** Directory for unfinished Singularity images. */
  readonly sifDirectory: string;
  readonly sif: SifSettings;
  readonly space: DiskSpace;
  readonly hosted: Pick<HostedManifests, 'removeAll'>;
  readonly repositories: HostedStore['repositories'];
  /** Bytes of a hosted repository and of those below it. */
  readonly hostedBytes: HostedSums['bytesBelow'];
  /** Bytes that builds without a login may fill in a hosted repository; undefined for no limit. */
  readonly maxAnonymousBytes: number | undefined;
  readonly log: Logger;
  readonly tally: Tally;
  readonly health: RemoteHealth;
}

export function createBuildService(deps: BuildServiceDeps): BuildService {
  const { store, registry, documents, found, log, ownHost, limits } = deps;
  const ownLogs = createBuildLogs(deps.logDirectory);
  const logs = deps.logArchive
    ? archivedLogs(ownLogs, deps.logDirectory, deps.logArchive, err =>
        log.error({ err }, 'cannot reach the logs of builds in the object store'),
      )
    : ownLogs;
  const tlsOf = createBuilderTls(deps.builderTls, log);
  const pods = found.isConfigured ? findWorkerPods() : undefined;
  const keepsForUsers = limits.concurrent.ofAnonymous < limits.concurrent.inAll;
  const builders = createBuilders({
    source: found,
    log,
    tlsOf,
    health: deps.health,
    pods,
    keepsForUsers,
  });
  // The log says at the start which builders do not keep callers apart.
  if (found.isConfigured) builders.require(anyUser).catch(() => {});

  const labelOf = createLabelOf(deps.signingKey);

  const rightsOf = createBuildRights({
    credentialsOf: deps.credentialsOf,
    limitsOf: deps.limitsOf,
    tokens: deps.tokens,
    fetchToken: deps.fetchToken,
    ownHost,
    tokenLifeMs: Math.max(limits.timeLimit, limits.trustedTimeLimit) + tokenMarginMs,
  });

  // Loads the client of the builder when it is first needed.
  const runRecipe: RunRecipe = async run => {
    const { createRunRecipe } = await import('./solve/run-recipe.ts');
    const { content, places } = deps;
    const { sourceRules } = deps;
    const { sharesMounts = false } = places;
    const common = { builders, content, sourceRules, sharesMounts, labelOf };
    const isTrustedCache = limits.trustCaches;
    return createRunRecipe({ ...common, isTrustedCache, serviceCache: places.cache })(run);
  };

  const runWheelBuild: RunWheelBuild = async run => {
    const { createRunWheelBuild } = await import('./solve/wheels/run-wheel-build.ts');
    const { maxArchiveBytes: maxBytes } = deps.conda.packageLimits;
    return createRunWheelBuild({ builders, content: deps.content, labelOf, maxBytes })(run);
  };

  const runScripts: RunScripts = async run => {
    const { createRunScripts } = await import('./solve/scripts/run-scripts.ts');
    const { content, conda } = deps;
    return createRunScripts({ builders, content, labelOf, limits: conda.packageLimits })(run);
  };
  const { keptSteps } = deps.conda;
  const scriptLayers = createScriptLayers({ ...deps, keptSteps, runScripts, labelOf });

  const wheelBuilds = createWheelBuilds({
    ...deps,
    kept: deps.conda.keptWheels,
    layers: deps.conda.layers,
    labelOf,
    pythonSolver: deps.conda.pythonSolver,
    fetchFile: deps.conda.fetchWheel,
    commits: deps.conda.commits,
    repositories: deps.conda.repositories,
    run: runWheelBuild,
  });

  // Loads the conversion to Singularity images when it is first needed.
  const makeSif: MakeSif = async (...given) => {
    const { createMakeSif } = await import('./solve/sif/make-sif.ts');
    const { sifDirectory: directory, sif: settings } = deps;
    return createMakeSif({ ...deps, directory, settings })(...given);
  };
  const readOwnLock = createReadOwnLock(store, ownHost);
  const findSolution = createFindSolution({ ...deps, ...deps.conda, readOwnLock });
  const publish = createPublish(deps);
  const stageSifBases: StageSifBases = async (...given) => {
    const { createStageSifBases } = await import('./solve/sif/stage-sif-bases.ts');
    const { sifDirectory: directory, sif: limits } = deps;
    return createStageSifBases({ ...deps, directory, limits, publish })(...given);
  };

  const builderPlatforms = () => {
    const native = builders.states().flatMap(({ platforms = [] }) => platforms.slice(0, 1));
    return native.length > 0 ? [...new Set(native)] : supportedPlatforms;
  };
  const { conda, condaChannels } = deps.places;
  const staging = createStagedImages(deps);
  const targets = createTargetRepository({ ...deps, rightsOf });
  const builds = createBuilds({
    store,
    logs,
    solve: createSolve({
      runRecipe,
      requireBuilder: builders.require,
      makeCondaImage: createMakeCondaImage({ ...deps.conda, findSolution, documents }),
      compressBase: createCompressBase({ ...deps, ...deps.conda }),
      wheelBuilds,
      scriptLayers,
      documents,
      makeImage: deps.makeImage,
      datedLayers: createDatedLayers(deps.content),
      redate: createRedateImage(deps),
      publish,
      makeSif,
      stageSifBases,
      prepareBases: createPrepareBases({ ...deps, builderPlatforms }),
      attach: createAttach(registry, deps.pusher),
      mirror: createMirror({ ...deps, publish, noteByTag: createNoteByTag(registry, deps.pusher) }),
      rightsOf,
      // What other builders reach is the operator's choice.
      isClosed: host => !found.isConfigured && deps.isClosed(host),
      serviceCache: deps.places.cache,
      conda,
      condaChannels,
      content: deps.content,
      staging,
    }),
    limitsOf: deps.limitsOf,
    messagesOf: createMessagesOf(deps),
    find: targets.find,
    async admit(plan, caller) {
      const { grant } = caller;
      if (grant === undefined) await targets.requireAnonymousRoom(plan.target);
      if (needsBuilder(plan)) {
        const isAlone = mustBeAlone(recipeIn(plan) ?? {});
        await builders.require({ ...domainOfCaller(caller), isAlone }).catch(error => {
          throw withReasons(error, recipeIn(plan)?.builderReasons);
        });
      }
      await targets.requirePush(plan.target, grant);
    },
    builders,
    log,
    tally: deps.tally,
    concurrent: limits.concurrent,
    timeLimits: { usual: limits.timeLimit, trusted: limits.trustedTimeLimit },
    retryAfterMs: limits.retryAfter,
    keep: {
      usual: limits.keep,
      failed: limits.keepFailed,
      anonymous: limits.keepAnonymous,
    },
    remove: (build, at) => store.remove(build.id, at, targets.removedWith(build)),
    waiting: limits.waiting,
  });

  return {
    builds,
    logs,
    solutionOf: createSolutionOf({
      findSolution,
      rightsOf,
      layers: deps.conda.layers,
      wheelBuilds,
      scriptLayers,
      conda,
      condaChannels,
    }),
    requireBuilder: user =>
      builders.require(domainOfCaller({ owner: user ?? '', isTrusted: user !== undefined })),
    builderStates: builders.states,
    removeStagedImages: staging.removeStray,
    async close() {
      await closeInTurn(
        [
          ['running builds', builds.close],
          ['connections to builders', builders.close],
          ['builder', found.close],
        ],
        log,
      );
    },
  };
}

const tokenMarginMs = 60_000;
const anyUser: TrustDomain = { name: '', callerKind: 'known', isAlone: false };
