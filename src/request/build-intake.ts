import {
  type BaseCheckDeps,
  type BuildCaller,
  type Builds,
  type BuildTicket,
  checkRecipeImages,
  type OnBegin,
  ownFailure,
  type Secrets,
  type ShownBase,
  ticketOf,
} from '../builds/index.ts';
import { type BuildPlan, isNative, recipeIn } from '../builds/plan/build-plan.ts';
import {
  type BuildPlaces,
  domainOfCaller,
  frozenPlace,
  planBuild,
  planFreeze,
  planMirror,
} from '../builds/plan/index.ts';
import { Fault } from '../foundation/fault.ts';
import {
  hasImagesForWindows,
  type ImageChange,
  isUnchanged,
  ofBase,
} from '../images/augment/index.ts';
import { type Documents, type ImageMaker, imageConfig, type RightWatch } from '../images/index.ts';
import { type Document, parseManifest } from '../oci/index.ts';
import { formatReference, maxNameLength, parseReference, type Reference } from '../oci/naming.ts';
import type { Identities } from '../platform/index.ts';
import type { CredentialSource } from '../upstream/auth/index.ts';
import {
  type Access,
  accessTo,
  findManifest,
  type PushClient,
  pushingTo,
  type RegistryClient,
} from '../upstream/index.ts';
import type { Caller, Submission } from './container-request.ts';
import type { IncludedImage } from './layers/included-images.ts';
import type { TakeContext } from './layers/uploaded-contexts.ts';
import { tokenLength } from './tokens/container-token.ts';
import { whyUnchanged } from './wanted-change.ts';

/** An image that is made by a build, or by changing an existing image. */
interface MadeImage {
  readonly plan: BuildPlan;
  readonly ticket: BuildTicket;
  /** True if registries have shown all its parts without credentials. */
  readonly isPublic: boolean;
}

/** An existing image, as requested. */
export interface AskedBase {
  readonly access: Access;
  readonly document: Document;
  /** Undefined for an image that was requested by its digest. */
  readonly tag: string | undefined;
}

/** The image to make. */
interface MakeRequest {
  readonly submission: Submission;
  readonly caller: Caller;
  /** The image to start from; undefined for a recipe. */
  readonly base?: AskedBase | undefined;
  /** Changes to make in the image itself. */
  readonly change: ImageChange;
  /** The included images, whose layers are in the change. */
  readonly included?: readonly IncludedImage[] | undefined;
  /** Aborts when the caller disconnects. */
  readonly signal?: AbortSignal | undefined;
}

/** Plans and starts the builds that requests require. Both methods throw {@link Fault}. */
export interface BuildIntake {
  plan(request: MakeRequest): Promise<BuildPlan>;
  /** Finds the image, or starts to make it. The caller must have a right to all its parts. */
  make(request: MakeRequest, onBegin: OnBegin): Promise<MadeImage>;
}

interface BuildIntakeDeps {
  readonly builds: Builds;
  readonly places: BuildPlaces;
  readonly takeContext: TakeContext;
  readonly makeImage: ImageMaker;
  readonly registry: RegistryClient;
  readonly pusher: PushClient;
  readonly credentialsOf: Identities['credentialsOf'];
  readonly limitsOf: Identities['limitsOf'];
  readonly rights: Pick<RightWatch, 'note'>;
  readonly documents: Pick<Documents, 'manifest' | 'config'>;
  readonly findServedBase: BaseCheckDeps['findServedBase'];
  readonly ownHost: string;
  /** `host/prefix`: the beginning of every served name. */
  readonly servedNameStart: string;
  /** Returns true for the repositories that the service uses in its own right. */
  readonly isOfService: (registry: string, repository: string) => boolean;
}

export function createBuildIntake(deps: BuildIntakeDeps): BuildIntake {
  const { builds, places, takeContext, registry, pusher, ownHost, isOfService } = deps;

  /**
   * Checks the caller's right to a repository to push to. A build uses the service's own right to hosted images and to its
   * repositories elsewhere, so a caller that names one of them must have that right itself. Elsewhere, it checks that the
   * access token is not limited to others: a builder gets a password by host, which may open all repositories there.
   */
  const requireOwnRight = async (
    field: string,
    name: string | undefined,
    credentials: CredentialSource,
  ): Promise<void> => {
    if (name === undefined) return;
    const image = parseReference(name);
    const access = await ofField(field, accessTo(image, credentials));
    if (image.registry !== ownHost && !isOfService(image.registry, image.repository)) return;
    await ofField(field, pusher.check(pushingTo(access)));
  };

  /** Checks that the base can become what is asked for: a frozen image has no warning that something is missing in it. */
  const requireImage = async (
    { access, document }: AskedBase,
    change: ImageChange,
    format: Submission['format'],
  ): Promise<void> => {
    const { registry, repository } = access;
    const refuse = (why: string) => {
      const name = formatReference({ registry, repository });
      throw new Fault('bad-request', `'containerImage': ${name} ${why}`, { phase: 'request' });
    };
    const manifest = parseManifest(document);
    if (format === 'sif') {
      const isImage =
        manifest.kind === 'manifest' &&
        (await imageConfig(deps.documents, access, manifest)) !== undefined;
      if (!isImage) {
        refuse(
          'is an artifact, not a container image: only an image can be converted to a Singularity image',
        );
      }
    }
    if (isUnchanged(change)) return;
    const { generated } = await deps.makeImage(access, document, change);
    if (hasImagesForWindows(document, change)) {
      refuse(
        "has images for Windows, to which the layers cannot be added: name a 'containerPlatform', such as linux/amd64",
      );
    }
    if (generated.size > 0) return;
    refuse(
      `${whyUnchanged(document, change)}, so the containerConfig cannot be applied: freeze it without one`,
    );
  };

  /** Nobody could pull the image after its build. */
  const checkName = ({ target }: BuildPlan, { freeze, mirror }: Submission): void => {
    if (freeze || mirror) checkFrozenLength(target);
    else checkServedLength(deps.servedNameStart, parseReference(target).repository);
  };

  const planOf = async (request: MakeRequest): Promise<BuildPlan> => {
    const plan = await planFor(request);
    checkName(plan, request.submission);
    return plan;
  };

  const planFor = async ({
    submission,
    caller,
    base,
    change,
    signal,
  }: MakeRequest): Promise<BuildPlan> => {
    if (base) {
      const { access, document, tag } = base;
      if (submission.mirror) {
        const plan = planMirror(submission.buildRepository ?? '', {
          ...access,
          tag,
          base: document,
        });
        if (isSameRepository(parseReference(plan.target), access)) throw copyOntoItself(access);
        return plan;
      }
      await requireImage(base, change, submission.format);
      const { buildRepository = frozenPlace(submission, places) } = submission;
      const { registry, repository } = access;
      const name = tag === undefined ? { digest: document.digest } : { tag };
      return planFreeze(
        { ...submission, buildRepository },
        { ...access, tag, base: document },
        ofBase(change, formatReference({ registry, repository, ...name })),
      );
    }
    const { buildContext } = submission;
    const context = buildContext && (await takeContext(buildContext, { ...caller, signal }));
    const { owner, isTrusted } = buildCallerOf(caller);
    const limits = deps.limitsOf(caller.grant);
    const mountsOf =
      places.sharesMounts && isTrusted
        ? domainOfCaller({ owner, isTrusted, limits }).name
        : undefined;
    return planBuild({ ...submission, context, mountsOf }, places, change);
  };

  /** Checks the caller's right to the repositories that it names. */
  const requireOwnRights = async (
    { submission, caller }: MakeRequest,
    { target }: BuildPlan,
  ): Promise<void> => {
    // Its name may be longer than the requested one, and another right may apply to it.
    const named = submission.buildRepository && target;
    const pushing = deps.credentialsOf(caller.grant, 'push');
    await requireOwnRight('buildRepository', named, pushing);
    await requireOwnRight('cacheRepository', submission.cacheRepository, pushing);
  };

  /** Checks the caller's right to all images that the build pulls. Returns the plan with them. */
  const requireBases = async (
    { submission, caller, base, included = [] }: MakeRequest,
    plan: BuildPlan,
  ): Promise<Pick<MadeImage, 'plan' | 'isPublic'> & Pick<BuildCaller, 'shown'>> => {
    const credentials = deps.credentialsOf(caller.grant);
    const recipe = recipeIn(plan);
    const at = performance.now();
    // The check also applies to an existing image: it contains the content of the base images.
    const bases = recipe ? await checkRecipeImages(recipe, deps, credentials) : [];
    for (const { access, reference, served } of bases) {
      if (!served) deps.rights.note(access, reference);
    }
    if (frozenPlace(submission, places) !== undefined) {
      const all = base ? [{ access: base.access, reference: base.document.digest }] : bases;
      const more = included.map(({ image, access }) => ({ access, reference: image.digest ?? '' }));
      await Promise.all([...all, ...more].map(one => requireOpen(one, registry)));
    }
    const isPublic = bases.every(({ access, served }) =>
      served ? served.isPublic : access.credentials === undefined,
    );
    if (!recipe) return { plan, isPublic };
    const origin = { ...recipe, baseImages: bases.map(({ name }) => name) };
    const shown = bases.map(({ name, digest, mediaType }) => ({ name, digest, mediaType }));
    return { plan: { ...plan, origin }, isPublic, shown: { at, bases: shown } };
  };

  /**
   * Waits for the packages of an image that is made without a builder, so that the response to the request says why
   * they have no solution.
   */
  const withSolution = async (plan: BuildPlan, ticket: BuildTicket): Promise<BuildTicket> => {
    if (!isNative(plan) || ticket.id === undefined || ticket.isCached) return ticket;
    const now = ticketOf(await builds.solved(ticket.id, solveWaitMs));
    if (now.succeeded !== false) return now;
    const { reason = ownFailure } = now;
    const kind = reason === ownFailure ? 'internal' : 'bad-request';
    throw new Fault(kind, reason, { phase: 'build' });
  };

  return {
    plan: planOf,

    async make(request, onBegin) {
      const planned = await planOf(request);
      await requireOwnRights(request, planned);
      const buildCaller = {
        ...buildCallerOf(request.caller),
        secrets: secretsOf(request.submission),
        onBegin,
      };
      const sought = builds.seek(planned, buildCaller);
      const { plan, isPublic, shown } = await requireBases(request, planned);
      const requested = builds.request(plan, { ...buildCaller, shown }, sought);
      const isNamed = request.submission.buildRepository !== undefined;
      const ticket = await (isNamed ? ofField('buildRepository', requested) : requested);
      return { plan, ticket: await withSolution(plan, ticket), isPublic };
    },
  };
}

function isSameRepository(one: RepositoryName, other: RepositoryName): boolean {
  return one.registry === other.registry && one.repository === other.repository;
}

type RepositoryName = Pick<Reference, 'registry' | 'repository'>;

function copyOntoItself({ registry, repository }: RepositoryName): Fault {
  return new Fault(
    'bad-request',
    `'buildRepository': ${registry}/${repository} would be copied onto itself: name another registry or repository`,
    { phase: 'request' },
  );
}

/** Returns what the build must not store; undefined for nothing. */
function secretsOf({ secrets = {}, ssh = {} }: Submission): Secrets | undefined {
  const isThere = Object.keys(secrets).length > 0 || Object.keys(ssh).length > 0;
  return isThere ? { values: secrets, sshKeys: ssh } : undefined;
}

/**
 * Checks that everyone may pull an image: images made of it are stored where everyone may pull. Throws a {@link Fault}
 * (400).
 */
async function requireOpen(
  { access, reference, served }: Pick<ShownBase, 'access' | 'reference' | 'served'>,
  client: RegistryClient,
): Promise<void> {
  const { registry, repository, credentials } = access;
  if (served ? served.isPublic : credentials === undefined) return;
  try {
    await findManifest(client, { registry, repository, credentials: undefined }, reference);
  } catch (cause) {
    if (!(cause instanceof Fault)) throw cause;
    throw new Fault(
      'bad-request',
      `'freeze': ${registry}/${repository} is private, and images without 'buildRepository' are frozen to a repository that others can pull from: set 'buildRepository' to your own repository`,
      { phase: 'request', cause },
    );
  }
}

// Solving continues after the response when it takes longer: clients give up after 30 seconds and more.
const solveWaitMs = 20_000;

// Phases that involve a registry.
const registryPhases: readonly unknown[] = ['credentials', 'upstream', 'push'];

/** Adds the name of the field to failures of its registry. */
async function ofField<T>(field: string, work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (error) {
    if (!(error instanceof Fault) || !registryPhases.includes(error.phase)) throw error;
    throw error.withMessage(`'${field}': ${error.message}`);
  }
}

/**
 * Returns the caller of a build. A caller with a login gets more time, and its own place in the queue from any address.
 */
function buildCallerOf({
  user,
  scope,
  grant,
  address,
  network = address,
}: Caller): Omit<BuildCaller, 'onBegin'> {
  return { owner: user ?? network, scope: scope ?? '', isTrusted: user !== undefined, grant };
}

/** Throws a {@link Fault} (400) if the name by which a repository is served is longer than clients accept. */
export function checkServedLength(servedNameStart: string, repository: string): void {
  checkLength(
    `${servedNameStart}/`.length + tokenLength + `/${repository}`.length,
    ", or 'freeze'",
  );
}

/** Throws a {@link Fault} (400) if the name of a frozen image is longer than clients accept. */
function checkFrozenLength(target: string): void {
  const { registry, repository } = parseReference(target);
  checkLength(`${registry}/${repository}`.length, '');
}

function checkLength(length: number, also: string): void {
  if (length <= maxNameLength) return;
  throw new Fault(
    'bad-request',
    `The name to pull would have ${length} characters without its tag, and clients accept at most ${maxNameLength}: use an image or a 'buildRepository' with a shorter name, another 'nameStrategy' than imageSuffix${also}`,
    { phase: 'request' },
  );
}
