import { randomBytes } from 'node:crypto';
import { maskAddresses } from '../buildkit/index.ts';
import { type BuildTicket, type OnBegin, sentence } from '../builds/index.ts';
import { type BuildPlan, pullName, recipeIn } from '../builds/plan/build-plan.ts';
import {
  type BuildPlaces,
  compressionWarnings,
  frozenPlace,
  type SubmittedPackages,
} from '../builds/plan/index.ts';
import { Fault } from '../foundation/fault.ts';
import {
  hasImagesForWindows,
  type ImageChange,
  isUnchanged,
  ofBase,
} from '../images/augment/index.ts';
import type { Documents, ImageMaker, MadeImage, RightWatch } from '../images/index.ts';
import { ignoredInSif } from '../images/sif/definition/index.ts';
import { type Document, manifestType } from '../oci/index.ts';
import { formatReference, parseReference, type Reference } from '../oci/naming.ts';
import type { SealedGrant } from '../platform/index.ts';
import type { CredentialSource } from '../upstream/auth/index.ts';
import { type Access, accessTo } from '../upstream/index.ts';
import {
  askedImage,
  askedTag,
  type BaseFinder,
  checkScheme,
  type FoundBase,
  orasScheme,
  wantedPlatforms,
} from './asked-image.ts';
import { type BuildIntake, checkServedLength } from './build-intake.ts';
import {
  type ApiVersion,
  type AskedFields,
  type Caller,
  type ContainerRequest,
  type FixedImage,
  inHome,
  type RunOfName,
  type Submission,
} from './container-request.ts';
import { type OnlyFrozen, withLastingName } from './lasting-names.ts';
import type { IncludedImage, IncludedImages } from './layers/included-images.ts';
import type { LayerIntake } from './layers/layer-intake.ts';
import { checkRules } from './rules.ts';
import type { FindRun } from './run-of-name.ts';
import { type FindServed, onTopOf } from './served-name.ts';
import type { ContainerToken } from './tokens/container-token.ts';
import type { TokenRegistry } from './tokens/token-registry.ts';
import { changeOf, whyUnchanged } from './wanted-change.ts';

export interface AcceptDeps {
  readonly baseOf: BaseFinder;
  readonly manifest: Documents['manifest'];
  readonly makeImage: ImageMaker;
  readonly layers: LayerIntake;
  readonly includes: IncludedImages;
  readonly tokens: TokenRegistry;
  readonly rights: Pick<RightWatch, 'note'>;
  readonly build: BuildIntake;
  readonly places: BuildPlaces;
  readonly findServed: FindServed;
  readonly findRun: FindRun;
  readonly onlyFrozen: OnlyFrozen;
  readonly accessToBuilt: (image: Reference, grant: SealedGrant | undefined) => Promise<Access>;
  readonly credentialsOf: (grant: SealedGrant | undefined) => CredentialSource;
  /** `host/prefix`: the beginning of every served name. */
  readonly servedNameStart: string;
  /** Prefixes of layer URLs that identify a mounted file system. */
  readonly mountedLayers: readonly string[];
}

export type Accepted = ServedResponse | FrozenResponse;

/** An image that is served under a token. */
export interface ServedResponse {
  readonly kind: 'served';
  readonly request: ContainerRequest;
  /** Warnings about an accepted request. */
  readonly warnings: readonly string[];
  /** The state of its build, for a built image. */
  readonly ticket?: BuildTicket;
}

/** An image that is pushed to a repository of the caller: its name has no token and does not expire. */
export interface FrozenResponse {
  readonly kind: 'frozen';
  readonly request: ContainerRequest;
  /** Warnings about an accepted request. */
  readonly warnings: readonly string[];
  readonly ticket: BuildTicket;
}

// The limit of docker's classic image store: "max depth exceeded".
const dockerLayerLimit = 125;

/** Turns a submission into a container request that can be pulled. Throws a {@link Fault}. */
export type Accept = (
  submission: Submission,
  version: ApiVersion,
  caller: Caller,
  /** Called before a new build begins; an exception prevents the build. */
  onBuild: OnBegin,
  /** Aborts when the caller disconnects. */
  signal?: AbortSignal,
) => Promise<Accepted>;

export function createAccept(deps: AcceptDeps): Accept {
  /** Resolves the requested image, with the rights of the caller. */
  const baseFor = async (image: Reference, submission: Submission, { grant, network }: Caller) => {
    const access = { ...(await accessTo(image, deps.credentialsOf(grant))), network };
    const found = await deps.baseOf(access, image, wantedPlatforms(submission));
    checkScheme(submission, found.document);
    return { access, ...found };
  };

  /** Issues a container request. Without a fixed image, the first pull applies the change. */
  const issue = async (
    { submission, caller, change, isMounted, included, run }: Intake,
    image: Reference,
    about: Pick<ContainerRequest, 'buildId' | 'isBuilt' | 'isPublic'>,
    fixed?: FixedImage,
  ): Promise<ServedResponse> => {
    const request = await deps.tokens.issue(token => ({
      ...about,
      ...commonOf(submission, caller),
      ...includedIn(included, about.isPublic),
      run,
      isMounted,
      image,
      fixed,
      change: ofBase(change, formatReference(image)),
      targetImage: targetName(deps.servedNameStart, token, image, fixed, submission),
    }));
    return { kind: 'served', request, warnings: [] };
  };

  /** Issues the container request of an existing image. */
  const serve = async (
    intake: Intake,
    image: Reference,
    { access, document: base, root }: Base,
    about: Pick<ContainerRequest, 'buildId' | 'isBuilt' | 'isPublic'>,
  ): Promise<ServedResponse> => {
    deps.rights.note(access, base.digest);
    const change = ofBase(intake.change, formatReference(image));
    const made = await deps.makeImage(access, base, change);
    const fixed = {
      base: { digest: base.digest, mediaType: manifestType(base) },
      ...(root === undefined ? {} : { root }),
      served: { digest: made.root.digest, mediaType: manifestType(made.root) },
      members: made.members,
    };
    const response = await issue(intake, image, about, fixed);
    return { ...response, warnings: warningsOf(image, base, change, made) };
  };

  /** Issues the container request of an image that was built, or is built now. */
  const build = async (intake: Intake, onBuild: OnBegin): Promise<ServedResponse> => {
    const { submission, caller, signal } = intake;
    // Changes are made when the image is served, so that many requests share one build.
    const { plan, ticket, isPublic } = await deps.build.make(
      { submission, caller, change: {}, signal },
      onBuild,
    );
    const image = parseReference(plan.target);
    const about = { isBuilt: true, buildId: ticket.id, isPublic };
    if (ticket.isCached && ticket.succeeded) {
      const { grant, network } = caller;
      const access = { ...(await deps.accessToBuilt(image, grant)), network };
      const { image: found } = ticket;
      const base = found
        ? { document: await deps.manifest(access, found.digest, found.mediaType) }
        : await deps.baseOf(access, image, []);
      const reply = await serve(intake, image, { access, ...base }, about);
      return {
        ...reply,
        warnings: [...planWarnings(submission, plan), ...reply.warnings],
        ticket,
      };
    }
    const response = await issue(intake, image, about);
    return { ...response, warnings: planWarnings(submission, plan), ticket };
  };

  /** Makes a complete image, or copies one, in the repository of the caller. */
  const freeze = async (
    { submission, caller, change, included }: Intake,
    found: Base | undefined,
    tag: string | undefined,
    onBuild: OnBegin,
  ): Promise<FrozenResponse> => {
    const base = found && { ...found, tag };
    const { plan, ticket } = await deps.build.make(
      { submission, caller, base, change, included },
      onBuild,
    );
    const request = await deps.tokens.issue(() => ({
      ...commonOf(submission, caller),
      isMounted: false,
      image: parseReference(plan.target),
      isBuilt: true,
      isFrozen: true,
      buildId: ticket.id,
      fixed: undefined,
      change: {},
      targetImage: pullName(plan),
    }));
    const isOpen = frozenPlace(submission, deps.places) !== undefined;
    const warnings = [
      ...planWarnings(submission, plan),
      ...(isOpen ? [openWarning(plan)] : []),
      ...sifWarnings(plan),
    ];
    return { kind: 'frozen', request, warnings, ticket };
  };

  return async (given, version, caller, onBuild, signal) => {
    const lasting = withLastingName(given, deps.onlyFrozen);
    const submission = inHome(lasting, caller, deps.places);
    checkRules(submission, version, deps.places);
    const asked = askedImage(submission);
    // The name of another container request refers to its image with its changes, with the rights of this caller.
    const source = asked && (await deps.findServed(asked));
    const layers = await deps.layers.take(submission.containerConfig?.layers ?? [], {
      ...caller,
      signal,
    });
    const image = source?.image ?? asked;
    const pinned = source?.fixed ? { ...source.image, digest: source.fixed.base.digest } : image;
    const base = once(async () =>
      pinned && !source?.isBuilt ? baseFor(pinned, submission, caller) : undefined,
    );
    const names = submission.containerIncludes ?? [];
    if (source?.isBuilt && names.length > 0) throw servedBuild();
    const carried = await deps.includes.show(source?.includes ?? [], { ...caller, signal });
    const more =
      names.length === 0
        ? { images: [], layers: [] }
        : await deps.includes.take(submission, base, { ...caller, signal });
    const included = [...carried, ...more.images];
    const own = changeOf(submission, [...more.layers, ...layers]);
    const change = source && !isUnchanged(source.change) ? onTopOf(source.change, own) : own;
    const isMounted = mountsFiles(submission, deps.mountedLayers) || source?.isMounted === true;
    const isCopied = submission.freeze || submission.mirror;
    // A frozen image has a name that stays.
    const { run, warning } = isCopied ? {} : await deps.findRun(submission, caller);
    const intake = { submission, caller, change, isMounted, run, signal, included };
    const withWarning = (response: ServedResponse): ServedResponse =>
      warning === undefined ? response : { ...response, warnings: [warning, ...response.warnings] };
    if (submission.mirror && !isUnchanged(change)) throw changedMirror();
    if (source?.isBuilt) {
      if (isCopied) throw cannotCopy();
      const { image, buildId, isPublic } = source;
      const about = { isBuilt: true, buildId, isPublic: isPublic === true };
      return withWarning(await issue(intake, image, about));
    }
    const found = await base();
    if (isCopied) return freeze(intake, found, image && askedTag(image), onBuild);
    if (!image || !found) return withWarning(await build(intake, onBuild));
    const about = { isPublic: found.access.credentials === undefined };
    const response = await serve(intake, image, found, about);
    return withWarning({
      ...response,
      warnings: [...compressionWarnings(submission, undefined), ...response.warnings],
    });
  };
}

function cannotCopy(): Fault {
  return new Fault(
    'bad-request',
    "'containerImage' is the served name of a build, which cannot be copied: send the recipe of the build again with 'freeze'",
    { phase: 'request' },
  );
}

/** The refusal of included images for the served name of a build. */
export function servedBuild(): Fault {
  return new Fault(
    'bad-request',
    "'containerImage' is the served name of a build, whose platforms are not known here: send 'containerIncludes' with the recipe of the build",
    { phase: 'request' },
  );
}

function changedMirror(): Fault {
  return new Fault(
    'bad-request',
    "'containerImage' is the served name of a changed image, and 'mirror' copies images as they are: send 'freeze' instead",
    { phase: 'request' },
  );
}

/** An existing image. */
interface Base extends FoundBase {
  readonly access: Access;
}

interface Intake {
  readonly submission: Submission;
  readonly caller: Caller;
  readonly change: ImageChange;
  /** True if one of the layers is a mounted file system. */
  readonly isMounted: boolean;
  /** The run that a served name ends with. */
  readonly run: RunOfName | undefined;
  readonly signal: AbortSignal | undefined;
  readonly included: readonly IncludedImage[];
}

/** Returns what a request remembers of its included images. */
function includedIn(included: readonly IncludedImage[], isPublic: boolean | undefined) {
  if (included.length === 0) return {};
  return {
    includes: included.map(({ image }) => image),
    isPublic: isPublic === true && included.every(({ access }) => access.credentials === undefined),
  };
}

/** Returns a function that does the work at most once. */
function once<T>(work: () => Promise<T>): () => Promise<T> {
  let result: Promise<T> | undefined;
  return () => {
    result ??= work();
    return result;
  };
}

function commonOf(submission: Submission, caller: Caller) {
  const { containerPlatform, fingerprint, timestamp } = submission;
  const { containerImage, containerIncludes, buildRepository, cacheRepository, nameStrategy } =
    submission;
  const { format, freeze, mirror, platformWorkspaceId, workflowId } = submission;
  const asked: AskedFields = {
    containerImage,
    ...(containerIncludes?.length ? { containerIncludes } : {}),
    buildRepository,
    cacheRepository,
    nameStrategy,
    format,
    freeze,
    mirror,
    platformWorkspaceId,
    workflowId,
    packages: submission.packages && shownPackages(submission.packages),
  };
  const scan = scanOf(submission);
  return { caller, asked, platform: containerPlatform, fingerprint, timestamp, ...scan };
}

function scanOf({ scanMode: mode, scanLevels = [] }: Submission): Pick<ContainerRequest, 'scan'> {
  if (mode !== 'async' && mode !== 'required') return {};
  return { scan: { id: `sc-${randomBytes(16).toString('hex')}`, mode, levels: scanLevels } };
}

/** Returns packages as they were sent, with masked credentials in the addresses of channels and archives. */
function shownPackages({
  environment: _,
  ...packages
}: SubmittedPackages): AskedFields['packages'] {
  const masked = (texts: readonly string[] | undefined) => texts?.map(maskAddresses);
  return {
    ...packages,
    entries: masked(packages.entries),
    channels: masked(packages.channels),
  };
}

function mountsFiles({ containerConfig }: Submission, mountedLayers: readonly string[]): boolean {
  return (containerConfig?.layers ?? []).some(({ location }) =>
    mountedLayers.some(start => location.startsWith(start)),
  );
}

/**
 * Returns the served name. A name by tag keeps the tag; a name by digest gets the digest of the served image. Keeps the
 * scheme.
 */
function targetName(
  base: string,
  token: ContainerToken,
  image: Reference,
  fixed: FixedImage | undefined,
  { containerImage = '' }: Submission,
): string {
  const [scheme = ''] = (fixed && orasScheme.exec(containerImage)) ?? [];
  checkServedLength(base, image.repository);
  const suffix =
    image.digest === undefined ? `:${image.tag ?? 'latest'}` : `@${fixed?.served.digest ?? ''}`;
  return `${scheme}${base}/${token}/${image.repository}${suffix}`;
}

function planWarnings(submission: Submission, plan: BuildPlan): string[] {
  const reasons = recipeIn(plan)?.builderReasons ?? [];
  const ignored = [...compressionWarnings(submission, plan), ...(recipeIn(plan)?.warnings ?? [])];
  return reasons.length === 0
    ? ignored
    : [
        ...ignored,
        `${sentence(reasons)} a builder, so BuildKit makes the image and its layers are not shared`,
      ];
}

function openWarning({ target }: BuildPlan): string {
  const { registry, repository } = parseReference(target);
  return `The request has no 'buildRepository', so the image is frozen to ${registry}/${repository}, which others can pull from`;
}

function sifWarnings({ sif, change }: BuildPlan): string[] {
  if (!sif) return [];
  const ignored = ignoredInSif(change).map(
    ({ field, advice }) =>
      `'containerConfig.${field}' is stored in the image, but programs that run Singularity images ignore it: ${advice}`,
  );
  return [...(sif.warnings ?? []), ...ignored];
}

function warningsOf(
  image: Reference,
  base: Document,
  change: ImageChange,
  { generated, maxLayers }: Pick<MadeImage, 'generated' | 'maxLayers'>,
): string[] {
  const warnings: string[] = [];
  if (maxLayers > dockerLayerLimit) {
    warnings.push(
      `The image has ${maxLayers} layers with the added ones: Docker's classic image store supports at most ${dockerLayerLimit}. Pull it with podman, or with Docker's containerd store`,
    );
  }
  if (generated.size > 0 && hasImagesForWindows(base, change)) {
    warnings.push(
      `The images for Windows of ${formatReference(image)} are served unchanged, because layers are for Linux: name a 'containerPlatform' to get the changed image only`,
    );
  }
  if (generated.size === 0 && Object.keys(change).length > 0) {
    warnings.push(
      `${formatReference(image)} ${whyUnchanged(base, change)}: it is served unchanged, without the containerConfig`,
    );
  }
  return warnings;
}
