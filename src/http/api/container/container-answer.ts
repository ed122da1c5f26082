import { randomBytes } from 'node:crypto';
import type { BuildTicket } from '../../../builds/build-ticket.ts';
import type { Solution } from '../../../builds/solve/conda/solution-of.ts';
import { formatReference } from '../../../oci/reference.ts';
import type { Accepted, FrozenAnswer, ServedAnswer } from '../../../request/accept.ts';
import type { ContainerRequest } from '../../../request/container-request.ts';
import type { Forecast } from '../../../request/dry-run.ts';
import type { ApiVersion, Submission } from '../../../request/submission.ts';

/** Returns the answer to a container request. Source: container service specification, section 2.4. */
export function containerAnswer(
  accepted: Accepted,
  version: ApiVersion,
  freeze: boolean | undefined,
  warnings: readonly string[],
) {
  const answered = { ...accepted, warnings: [...warnings, ...accepted.warnings] };
  if (answered.kind === 'frozen') return frozenAnswer(answered);
  return version === 'v1alpha1' ? legacyAnswer(answered) : servedAnswer(answered, freeze);
}

const dryRunMark = 'dry-run-';

/** Returns true for the id of a dry run, which is not stored. */
export function isDryRunId(requestId: string): boolean {
  return requestId.startsWith(dryRunMark);
}

/** Returns the answer to a dry run. Source: reference service, `dryRun`: a dry run reports build number 0. */
export function forecastAnswer(
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
    ...(solution ? { solution: solutionAnswer(solution) } : {}),
    cached: isCached,
    ...(freeze === undefined ? {} : { freeze }),
    // Push access counts where the build pushes: some registries refuse pulls from a repository until it exists.
    succeeded:
      obstacle === undefined && registries.every(({ canPull, canPush = canPull }) => canPush),
    ...(obstacle ? { reason: obstacle.message } : {}),
    registries,
  };
}

function solutionAnswer({ platforms, builderReason }: Solution) {
  return {
    platforms: platforms.map(({ platform, packages }) => ({
      platform,
      packages: packages.map(({ name, version, build, url, size, isHere }) => ({
        ...{ name, version, build, url },
        ...(size === undefined ? {} : { size }),
        cached: isHere,
      })),
    })),
    ...(builderReason === undefined ? {} : { builderReason }),
  };
}

function legacyAnswer({ request, warnings }: ServedAnswer) {
  return {
    requestId: request.token,
    containerToken: request.token,
    targetImage: request.targetImage,
    expiration: isoTime(request.expiresAt),
    ...(warnings.length > 0 ? { warnings } : {}),
  };
}

function servedAnswer(served: ServedAnswer, freeze: boolean | undefined) {
  const { request, ticket } = served;
  return {
    ...legacyAnswer(served),
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

/** Returns the answer for a frozen image. Its name is permanent: it has no token and does not expire. */
function frozenAnswer({ request, warnings, ticket }: FrozenAnswer) {
  const { token, targetImage } = request;
  return {
    requestId: token,
    targetImage,
    ...(warnings.length > 0 ? { warnings } : {}),
    containerImage: targetImage,
    ...(ticket.id === undefined ? {} : { buildId: ticket.id }),
    ...stateOf(ticket),
    freeze: true,
  };
}

/**
 * Returns the state of the image. A waiting client polls the status of the request until the build has finished, unless
 * this answer has `succeeded`. A failed build is left to the status, which reports the reason.
 */
function stateOf({ isCached, succeeded, reason }: BuildTicket) {
  return {
    cached: isCached,
    ...(succeeded ? { succeeded } : {}),
    ...(succeeded === false && reason !== undefined ? { reason } : {}),
  };
}

/** Returns a request for its details page: without the identity and the address of the caller. */
export function describeRequest(request: ContainerRequest) {
  const { layers = [], baseName: _, ...config } = request.change;
  return {
    token: request.token,
    expiration: isoTime(request.expiresAt),
    request: {
      containerImage: sourceName(request),
      containerConfig: { ...config, ...(layers.length > 0 ? { layers } : {}) },
      ...(request.platform === undefined ? {} : { containerPlatform: request.platform }),
      ...(request.fingerprint === undefined ? {} : { fingerprint: request.fingerprint }),
      ...(request.timestamp === undefined ? {} : { timestamp: request.timestamp }),
      creationTime: isoTime(request.createdAt),
    },
    ...(request.buildId === undefined ? {} : { buildId: request.buildId }),
    source: { image: sourceName(request), digest: request.fixed?.base.digest },
    served: { image: request.targetImage, digest: request.fixed?.served.digest },
  };
}

function sourceName({ image }: ContainerRequest): string {
  return formatReference(image);
}

export function isoTime(ms: number): string {
  return new Date(ms).toISOString();
}
