import type { Solution, SolutionOf } from '../builds/index.ts';
import { type BuildPlan, needsBuilder, pullName, recipeIn } from '../builds/plan/build-plan.ts';
import { type BuildPlaces, compressionWarnings, condaTwins } from '../builds/plan/index.ts';
import { Fault } from '../foundation/fault.ts';
import { Semaphore } from '../foundation/semaphore.ts';
import type { InjectedLayer } from '../images/augment/index.ts';
import { type Document, parseManifest } from '../oci/index.ts';
import {
  formatPlatform,
  formatReference,
  offeredPlatforms,
  parseReference,
  type Reference,
} from '../oci/naming.ts';
import type { Identities } from '../platform/index.ts';
import {
  type Access,
  findManifest,
  type PushClient,
  pushingTo,
  type RegistryClient,
} from '../upstream/index.ts';
import { servedBuild } from './accept.ts';
import {
  askedImage,
  askedTag,
  type BaseFinder,
  checkScheme,
  wantedPlatforms,
} from './asked-image.ts';
import type { AskedBase, BuildIntake } from './build-intake.ts';
import { type ApiVersion, type Caller, inHome, type Submission } from './container-request.ts';
import { type OnlyFrozen, withLastingName } from './lasting-names.ts';
import type { IncludedImages, IncludingBase } from './layers/included-images.ts';
import type { LayerIntake } from './layers/layer-intake.ts';
import { checkRules } from './rules.ts';
import type { FindServed } from './served-name.ts';
import { changeOf } from './wanted-change.ts';

/** The result that a request would have. Nothing is done. */
export interface Forecast {
  /** The existing or planned image; the names of served images end with it. */
  readonly image: string;
  /** The digest that the image name resolves to; undefined for an image that does not exist. */
  readonly digest: string | undefined;
  /** Platforms in the form `os/architecture`. */
  readonly platforms: readonly string[];
  /** Key of the build, and the recipe for the builder. */
  readonly build: { readonly key: string; readonly containerFile: string | undefined } | undefined;
  /** Conda packages that would be installed; undefined for an image that exists or that BuildKit makes. */
  readonly solution: Solution | undefined;
  /** True if nothing would have to be made. */
  readonly isCached: boolean;
  /** Why the build could not start now, such as a missing builder; undefined if it could, or if nothing would be built. */
  readonly obstacle: Fault | undefined;
  readonly registries: readonly RegistryForecast[];
  readonly warnings: readonly string[];
}

/** The caller's rights to a repository. */
export interface RegistryForecast {
  readonly repository: string;
  /** Name and owner of the credentials; undefined for none. */
  readonly credentials: { readonly name: string; readonly owner: string } | undefined;
  readonly canPull: boolean;
  /** Undefined if nothing would be pushed. */
  readonly canPush: boolean | undefined;
  /** Why the caller cannot pull or push. */
  readonly problems: readonly string[];
}

/** Returns what a request would do. Throws a {@link Fault} for an invalid request. */
export type DryRun = (
  submission: Submission,
  version: ApiVersion,
  caller: Caller,
  /** Aborts when the caller disconnects. */
  signal?: AbortSignal,
) => Promise<Forecast>;

export interface DryRunDeps {
  readonly baseOf: BaseFinder;
  readonly layers: LayerIntake;
  readonly includes: Pick<IncludedImages, 'named' | 'list'>;
  readonly build: BuildIntake;
  readonly solutionOf: SolutionOf;
  /** Throws a `Fault` when there is no builder for the user, or for callers without a login. */
  readonly requireBuilder: (user: string | undefined) => Promise<void>;
  readonly places: BuildPlaces;
  readonly onlyFrozen: OnlyFrozen;
  readonly findServed: FindServed;
  readonly registry: RegistryClient;
  readonly pusher: PushClient;
  readonly identities: Identities;
  /** Returns the access with which this service reads an image that it makes. */
  readonly accessToBuilt: (image: Reference, grant: Caller['grant']) => Promise<Access>;
}

export function createDryRun(deps: DryRunDeps): DryRun {
  const { registry, pusher, identities } = deps;

  /** Checks the access to a repository, and returns the result. */
  const lookAt = async (
    image: Reference,
    grant: Caller['grant'],
    isPushed: boolean,
  ): Promise<RegistryForecast & { access: Access }> => {
    const { registry: host, repository } = image;
    const found = await identities.find(grant, host, repository, isPushed ? 'push' : 'pull');
    const access = { registry: host, repository, credentials: found?.credentials };
    const reference = image.digest ?? image.tag ?? 'latest';
    const pull = await problemOf(findManifest(registry, access, reference), isPushed);
    const push = isPushed ? await problemOf(pusher.check(pushingTo(access))) : undefined;
    return {
      access,
      repository: `${host}/${repository}`,
      credentials: found && { name: found.name, owner: found.owner },
      canPull: pull === undefined,
      canPush: isPushed ? push === undefined : undefined,
      problems: [...new Set([pull, push])].filter(text => text !== undefined),
    };
  };

  // All solves share one thread. No build limits the dry runs of a caller.
  const turns = new Semaphore({ perKey: 1, refusal: tooManySolves });
  const solve = (plan: BuildPlan, caller: Caller, signal: AbortSignal = neverAborted) => {
    const { user, address, network = address } = caller;
    const sharer = { owner: user ?? network, isTrusted: user !== undefined };
    const place = { key: sharer.owner, waitMs: turnMs, signal };
    return turns.run(() => deps.solutionOf(plan, caller.grant, signal, sharer), place);
  };

  /** Returns the advice to install R packages from Conda, where all of them are and none requires a builder. */
  const condaAdvice = async ({ submission, caller, signal }: Asked): Promise<string[]> => {
    const entries = submission.packages && condaTwins(submission.packages);
    if (entries === undefined) return [];
    const packages = { type: 'CONDA', entries };
    const plan = await deps.build.plan({
      submission: { ...submission, packages },
      caller,
      change: {},
      signal,
    });
    try {
      const solution = await solve(plan, caller, signal);
      if (solution === undefined || solution.builderReason !== undefined) return [];
    } catch (error) {
      if (error instanceof Fault) return [];
      throw error;
    }
    return [
      `All these packages also exist as Conda packages, which require no builder and share their layers with other images: send 'packages' of the type CONDA with the entries ${entries.join(' ')}`,
    ];
  };

  const obstacleTo = async (
    plan: BuildPlan,
    solution: Solution | undefined,
    { user }: Caller,
  ): Promise<Fault | undefined> => {
    const reason = solution?.builderReason ?? solution?.wheelReason;
    if (!needsBuilder(plan) && reason === undefined) return undefined;
    const fault = await faultIn(deps.requireBuilder(user));
    return reason === undefined ? fault : fault?.withMessage(`${reason}. ${fault.message}`);
  };

  /** Returns the image that would be made. */
  const forecastOf = async (asked: Asked, base: AskedBase | undefined): Promise<Forecast> => {
    const { submission, caller, signal, includes, added } = asked;
    const layers = await deps.layers.take(submission.containerConfig?.layers ?? [], {
      ...caller,
      signal,
    });
    // Included layers are in the key of the build.
    const change = submission.freeze ? changeOf(submission, [...added, ...layers]) : {};
    const plan = await deps.build.plan({ submission, caller, base, change, signal });
    const target = parseReference(plan.target);
    const access = await deps.accessToBuilt(target, caller.grant);
    const there = findManifest(registry, access, target.tag ?? 'latest');
    const missing = await problemOf(plan.mirror ? there.then(sameAs(base?.document)) : there);
    const recipe = recipeIn(plan);
    const named = recipe?.baseImages.map(parseReference) ?? [];
    const served = await Promise.all(named.map(deps.findServed));
    // A served name gives the rights of its own container request.
    const bases = named.filter((_, at) => !served[at]);
    const { buildRepository, cacheRepository } = submission;
    const look = (image: Reference, isPushed: boolean) =>
      tell(lookAt(image, caller.grant, isPushed));
    const [inIt, beside] = await Promise.all([
      Promise.all([
        ...bases.map(image => look(image, false)),
        ...(buildRepository === undefined ? [] : [look(target, true)]),
      ]),
      Promise.all(
        recipe && cacheRepository !== undefined
          ? [look(parseReference(cacheRepository), true)]
          : [],
      ),
    ]);
    // The service checked with its own rights: a caller without access must not learn that the image exists.
    const mayHave = [...inIt, ...includes].every(({ canPull }) => canPull);
    // An image that exists has its packages already.
    const isCached = missing === undefined && mayHave;
    // What requires a builder is in the request: nothing is pulled to find out.
    const hasReasons = recipe?.builderReasons !== undefined;
    const maySolve = hasReasons || bases.every((_, at) => inIt[at]?.canPull);
    const solution = isCached || !maySolve ? undefined : await solve(plan, caller, signal);
    return {
      image: pullName(plan),
      digest: base?.document.digest,
      platforms: recipe?.platforms ?? platformsOf(submission, base?.document),
      build: {
        key: plan.key,
        containerFile: recipe?.native ? undefined : recipe?.dockerfile,
      },
      solution,
      isCached,
      obstacle: isCached ? undefined : await obstacleTo(plan, solution, caller),
      registries: [...inIt, ...includes, ...beside],
      warnings: [
        ...compressionWarnings(submission, plan),
        ...(recipe?.warnings ?? []),
        ...(isCached ? [] : await condaAdvice(asked)),
      ],
    };
  };

  return async (given, version, caller, signal) => {
    const lasting = withLastingName(given, deps.onlyFrozen);
    const submission = inHome(lasting, caller, deps.places);
    checkRules(submission, version, deps.places);
    const { grant } = caller;
    const asked = askedImage(submission);
    const source = asked && (await deps.findServed(asked));
    const named = await deps.includes.named(submission);
    if (source?.isBuilt && named.length > 0) throw servedBuild();
    const includes = await Promise.all(
      [...(source?.includes ?? []), ...named].map(one => tell(lookAt(one, grant, false))),
    );
    /** Returns the included layers, which are not fetched. The caller must not learn of images that it may not pull. */
    const addedTo = async (base: IncludingBase | undefined) => {
      if (named.length === 0 || !includes.every(({ canPull }) => canPull)) return [];
      const taker = { ...caller, signal };
      return (await deps.includes.list(submission, async () => base, taker)).layers;
    };
    if (!asked) {
      const added = await addedTo(undefined);
      return forecastOf({ submission, caller, signal, includes, added }, undefined);
    }
    const image = source?.image ?? asked;
    const digest = source?.fixed?.base.digest;
    const pinned = digest === undefined ? image : { ...image, digest };
    const { access, ...repository } = await lookAt(pinned, grant, false);
    const isThere = repository.canPull;
    const base = isThere
      ? await deps.baseOf(access, pinned, wantedPlatforms(submission))
      : undefined;
    const document = base?.document;
    if (document) checkScheme(submission, document);
    const added = document ? await addedTo({ access, document }) : [];
    if ((submission.freeze || submission.mirror) && document) {
      const frozen = await forecastOf(
        { submission, caller, signal, includes, added },
        { access, document, tag: askedTag(image) },
      );
      return { ...frozen, registries: [repository, ...frozen.registries] };
    }
    return {
      image: formatReference(image),
      digest: document?.digest,
      platforms: platformsOf(submission, document),
      build: undefined,
      solution: undefined,
      isCached:
        isThere &&
        includes.every(({ canPull }) => canPull) &&
        !submission.freeze &&
        !submission.mirror,
      obstacle: undefined,
      registries: [repository, ...includes],
      warnings: compressionWarnings(submission, undefined),
    };
  };
}

const turnMs = 30_000;

function tooManySolves(): Fault {
  return new Fault(
    'unavailable',
    'Your other dry runs are still being solved: try again when they have finished',
    { phase: 'limit', limit: 'dry runs at once of one caller', retryAfterSeconds: 10 },
  );
}

const neverAborted = new AbortController().signal;

async function tell(
  look: Promise<RegistryForecast & { access: Access }>,
): Promise<RegistryForecast> {
  const { access: _, ...forecast } = await look;
  return forecast;
}

interface Asked {
  /** The caller's rights to the included images. */
  readonly includes: readonly RegistryForecast[];
  /** The layers of the included images. */
  readonly added: readonly InjectedLayer[];
  readonly submission: Submission;
  readonly caller: Caller;
  readonly signal: AbortSignal | undefined;
}

/**
 * Returns why an operation is impossible; undefined if it is possible. A missing image is not a problem if it would be
 * made.
 */
async function problemOf(
  work: Promise<unknown>,
  mayBeMissing = false,
): Promise<string | undefined> {
  const fault = await faultIn(work);
  return mayBeMissing && fault?.kind === 'manifest-unknown' ? undefined : fault?.message;
}

async function faultIn(work: Promise<unknown>): Promise<Fault | undefined> {
  try {
    await work;
    return undefined;
  } catch (error) {
    if (error instanceof Fault) return error;
    throw error;
  }
}

/** Returns a check that a name refers to this image. */
function sameAs(document: Document | undefined): (found: { readonly digest: string }) => void {
  return ({ digest }) => {
    if (digest === document?.digest) return;
    throw new Fault('manifest-unknown', 'The name refers to another image', { phase: 'request' });
  };
}

/** Returns the requested platforms, or else those of the image. */
function platformsOf(submission: Submission, document: Document | undefined): readonly string[] {
  const wanted = wantedPlatforms(submission);
  if (wanted.length > 0) return wanted.map(formatPlatform);
  return document ? platformsIn(document) : [];
}

/** Returns the platforms of an index. A single image has its platform in its config, which is not fetched for this. */
function platformsIn(document: Document): string[] {
  const manifest = parseManifest(document);
  return manifest.kind === 'index' ? offeredPlatforms(manifest.manifests) : [];
}
