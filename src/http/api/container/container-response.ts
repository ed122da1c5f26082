import { randomBytes } from 'node:crypto';
import { maskAddresses } from '../../../buildkit/index.ts';
import type { BuildTicket, Solution } from '../../../builds/index.ts';
import { type BuildPlan, recipeIn } from '../../../builds/plan/build-plan.ts';
import { formatReference, parseReference } from '../../../oci/naming.ts';
import {
  type Accepted,
  type ApiVersion,
  type ContainerRequest,
  type Forecast,
  type FrozenResponse,
  orasScheme,
  type ServedResponse,
  type Submission,
} from '../../../request/index.ts';
import type { BuildRow } from '../../../storage/rows/index.ts';
import { withServedAliases } from '../../aliases.ts';

/** Returns the response to a container request. Source: container service specification, section 2.4. */
export function containerResponse(
  accepted: Accepted,
  version: ApiVersion,
  freeze: boolean | undefined,
  warnings: readonly string[],
) {
  const shown = { ...accepted, warnings: [...warnings, ...accepted.warnings] };
  if (shown.kind === 'frozen') return frozenResponse(shown);
  return version === 'v1alpha1' ? legacyResponse(shown) : servedResponse(shown, freeze);
}

const dryRunMark = 'dry-run-';

/** Returns true for the id of a dry run, which is not stored. */
export function isDryRunId(requestId: string): boolean {
  return requestId.startsWith(dryRunMark);
}

/** Returns the response to a dry run. Source: reference service, `dryRun`: a dry run reports build number 0. */
export function forecastResponse(
  forecast: Forecast,
  { freeze }: Pick<Submission, 'freeze'>,
  ignored: readonly string[],
) {
  const { image, digest, platforms, build, solution, isCached, obstacle, registries } = forecast;
  const warnings = [...ignored, ...forecast.warnings];
  return {
    dryRun: true,
    requestId: `${dryRunMark}${randomBytes(6).toString('hex')}`,
    targetImage: image,
    containerImage: image,
    ...(warnings.length > 0 ? { warnings } : {}),
    ...(digest === undefined ? {} : { digest }),
    ...(build ? { buildId: `${build.key}_0`, key: build.key } : {}),
    ...(build?.containerFile === undefined ? {} : { containerFile: build.containerFile }),
    ...(platforms.length === 0 ? {} : { platforms }),
    ...(solution ? { solution: solutionResponse(solution) } : {}),
    cached: isCached,
    ...(freeze === undefined ? {} : { freeze }),
    // Push access counts where the build pushes: some registries refuse pulls from a repository until it exists.
    succeeded:
      obstacle === undefined && registries.every(({ canPull, canPush = canPull }) => canPush),
    ...(obstacle ? { reason: obstacle.message } : {}),
    registries,
  };
}

function solutionResponse({ platforms, builderReason }: Solution) {
  return {
    platforms: platforms.map(({ platform, packages }) => ({
      platform,
      packages: packages.map(({ name, version, build, url, size, isHere, mustBuild }) => ({
        name,
        version,
        build,
        url,
        ...(size === undefined ? {} : { size }),
        cached: isHere,
        ...(mustBuild ? { mustBuild } : {}),
      })),
    })),
    ...(builderReason === undefined ? {} : { builderReason }),
  };
}

function legacyResponse({ request, warnings }: ServedResponse) {
  return {
    requestId: request.token,
    containerToken: request.token,
    targetImage: request.targetImage,
    expiration: isoTime(request.expiresAt),
    ...(warnings.length > 0 ? { warnings } : {}),
  };
}

function servedResponse(served: ServedResponse, freeze: boolean | undefined) {
  const { request, ticket } = served;
  return {
    ...legacyResponse(served),
    containerImage: sourceName(request),
    // The served name refers to this digest as long as the name exists.
    ...(request.fixed
      ? { digest: request.fixed.served.digest, sourceDigest: request.fixed.base.digest }
      : {}),
    ...(request.buildId === undefined ? {} : { buildId: request.buildId }),
    ...(ticket ? stateOf(ticket) : { succeeded: true }),
    ...(freeze === undefined ? {} : { freeze }),
  };
}

/** Returns the response for a frozen image. Its name is permanent: it has no token and does not expire. */
function frozenResponse({ request, warnings, ticket }: FrozenResponse) {
  const { token, targetImage, asked } = request;
  const isMirror = asked?.mirror === true;
  return {
    requestId: token,
    targetImage,
    ...(warnings.length > 0 ? { warnings } : {}),
    containerImage: targetImage,
    ...(ticket.id === undefined ? {} : { buildId: ticket.id }),
    ...stateOf(ticket),
    ...(isMirror ? { mirror: true } : { freeze: true }),
  };
}

/**
 * Returns the state of the image. A waiting client polls the status of the request until the build has finished, unless
 * this response has `succeeded`. A failed build is left to the status, which reports the reason.
 */
function stateOf({ isCached, succeeded, reason }: BuildTicket) {
  return {
    cached: isCached,
    ...(succeeded ? { succeeded } : {}),
    ...(succeeded === false && reason !== undefined ? { reason } : {}),
  };
}

/**
 * Returns a request for its details: what was asked for, what that resolved to, and what was made. In the field names of
 * this service, and in those of the reference service beside them. Without the identity and the address of the caller.
 *
 * @param build the build of the request, while it is known
 */
export function describeRequest(request: ContainerRequest, build: BuildRow | undefined) {
  const { token, platform, fingerprint, timestamp, buildId, fixed, asked } = request;
  const plan = build && (JSON.parse(build.plan) as BuildPlan);
  const {
    layers = [],
    baseName: _,
    ...config
  } = request.isFrozen && plan ? plan.change : request.change;
  const containerConfig = { ...config, ...(layers.length > 0 ? { layers } : {}) };
  const created = isoTime(request.createdAt);
  const expiration = isoTime(request.expiresAt);
  const {
    platformWorkspaceId: workspaceId,
    containerImage,
    ...wanted
  } = asked ?? {
    containerImage: sourceName(request),
  };
  const recipe = plan && recipeIn(plan);
  const conda = recipe?.files['conda.yml'];
  const made = {
    ...(recipe && !recipe.native
      ? { containerFile: maskAddresses(recipe.original ?? recipe.dockerfile) }
      : {}),
    ...(conda === undefined ? {} : { condaFile: maskAddresses(conda) }),
  };
  const source = sourceOf(request, plan);
  const digest = fixed?.served.digest ?? (request.isFrozen ? build?.digest : undefined);
  const served = { image: request.targetImage, ...(digest ? { digest } : {}) };
  const about = {
    ...(containerImage === undefined ? {} : { containerImage }),
    containerConfig,
    ...(platform === undefined ? {} : { containerPlatform: platform, platform }),
    ...(fingerprint === undefined ? {} : { fingerprint }),
    ...(workspaceId === undefined ? {} : { workspaceId }),
    ...wanted,
  };
  return {
    id: token,
    token,
    expiration,
    request: {
      ...about,
      ...(timestamp === undefined ? {} : { timestamp }),
      creationTime: created,
    },
    ...(buildId === undefined ? {} : { buildId, build: { buildId, ...made, ...wanted } }),
    source,
    served,
    ...about,
    ...made,
    timestamp: timestamp ?? created,
    sourceImage: source.image,
    sourceDigest: source.digest,
    ...withServedAliases(served),
  };
}

/** Returns the image that the request starts from: of a recipe, the image that was built. */
function sourceOf(request: ContainerRequest, plan: BuildPlan | undefined) {
  if (plan?.origin.kind !== 'image') {
    return { image: sourceName(request), digest: request.fixed?.base.digest };
  }
  const { repository, digest } = plan.origin;
  const { containerImage = repository } = request.asked ?? {};
  return { image: nameOf(containerImage), digest };
}

/** Returns the full name of an image as it was sent. */
function nameOf(text: string): string {
  return formatReference(parseReference(text.replace(orasScheme, '')));
}

function sourceName({ image }: ContainerRequest): string {
  return formatReference(image);
}

export function isoTime(ms: number): string {
  return new Date(ms).toISOString();
}
