import type { IncomingMessage } from 'node:http';
import type { ParameterizedContext } from 'koa';
import { z } from 'zod';
import type { Builds } from '../../../builds/index.ts';
import { Fault } from '../../../foundation/fault.ts';
import { pauseTurn } from '../../../foundation/pause-turn.ts';
import { dayOf } from '../../../foundation/telemetry/counted.ts';
import {
  type Accept,
  type Accepted,
  type ApiVersion,
  type Caller,
  type ContainerRequest,
  countedArchitecture,
  type DryRun,
  isToBeMade,
  type Submission,
} from '../../../request/index.ts';
import type { TokenRegistry } from '../../../request/tokens/index.ts';
import { type ScanPolicy, type Scans, scanToPass } from '../../../scans/index.ts';
import type { DiskSpace } from '../../../storage/directory/index.ts';
import type { UsageStore } from '../../../storage/rows/index.ts';
import type { NoteBuild } from '../../callers/audit-notes.ts';
import { isSiteAdministrator } from '../../callers/identify.ts';
import type { Gate } from '../../gates/access-gate.ts';
import {
  type Allowance,
  type CallerRates,
  type Limiter,
  limitHeaders,
  rateFor,
} from '../../limits/limiter.ts';
import { clientSignal } from '../../request-state.ts';
import { ok } from '../../route/declaration.ts';
import { apiRoute } from '../api-route.ts';
import {
  containerResponse,
  describeRequest,
  forecastResponse,
  isDryRunId,
  isoTime,
} from './container-response.ts';
import { containerRequestSchema } from './container-schema.ts';
import { createFieldCheck } from './field-check.ts';
import { type EndRequestDeps, endRequest, isOwner } from './live-name-routes.ts';
import {
  containerDetailsSchema,
  containerResponseSchema,
  containerStatusSchema,
  emptySchema,
  legacyResponseSchema,
} from './response-schema.ts';
import { checkScanMode } from './scan-mode.ts';

/** Examples for the OpenAPI document: an existing image that is served with another entrypoint. */
const containerExample = {
  request: {
    containerImage: 'docker.io/library/alpine:3.20',
    containerPlatform: 'linux/amd64',
    containerConfig: { env: ['GREETING=hello'], workingDir: '/work' },
  },
  response: {
    requestId: 'b0b6a4e1c0de',
    containerToken: 'b0b6a4e1c0de',
    targetImage: 'sluice.example.com/ct/b0b6a4e1c0de/library/alpine:3.20',
    expiration: '2026-01-31T12:00:00.000Z',
    containerImage: 'docker.io/library/alpine:3.20',
    digest: 'sha256:77726ef6b57ddf65bb551896826ec38bc3e53f75cdde31354fbffb4f25238ebd',
    succeeded: true,
  },
  status: {
    id: 'b0b6a4e1c0de',
    status: 'DONE',
    succeeded: true,
    creationTime: '2026-01-30T00:00:00.000Z',
    duration: 0,
  },
};

export interface ContainerDeps extends AcceptRequestDeps, EndRequestDeps {
  readonly gate: Gate;
  readonly dryRun: DryRun;
  readonly builds: Builds;
  /** Address of the page of a build. */
  readonly pageUrlOf: (buildId: string) => string;
  /** True where images are frozen although their requests do not say so. */
  readonly freezesAll: boolean;
  readonly scanPolicy: ScanPolicy;
}

/** What the state of a container request is read from. */
export interface ContainerStatusDeps extends Pick<ContainerDeps, 'pageUrlOf' | 'scanPolicy'> {
  readonly builds: Pick<Builds, 'get'>;
  readonly tokens: Pick<TokenRegistry, 'get'>;
  readonly scans: Pick<Scans, 'get' | 'refusalOf' | 'pageUrlOf'> | undefined;
}

const tag = 'Containers';
const token = z.string().describe('`containerToken` or `requestId` of the response to the request');
const requestBody = {
  schema: containerRequestSchema,
  example: containerExample.request,
  review: createFieldCheck(containerRequestSchema),
  isBuild: isToBeMade,
};
const upstreamFaults = [
  ...(['not-found', 'internal', 'not-provided', 'upstream'] as const),
  ...(['unavailable', 'upstream-timeout', 'storage-full'] as const),
];

const submission = {
  method: 'post',
  tag,
  access: 'requests',
  limit: 'requests',
  body: requestBody,
  faults: upstreamFaults,
  claim: ({ body }: { readonly body: Submission }) => body,
} as const;
const details = {
  method: 'get',
  tag,
  access: 'caller',
  params: { token },
  responses: ok(containerDetailsSchema, 'The request, and the images that it stands for'),
  faults: ['not-found'],
} as const;

export const containerStatusRoute = apiRoute({
  id: 'getContainerStatus',
  method: 'get',
  path: '/v1alpha2/container/{token}/status',
  tag,
  summary: 'State of a container request',
  access: 'anybody',
  params: { token },
  responses: ok(containerStatusSchema, 'The state', containerExample.status),
  faults: ['not-found'],
  async run({ params }, { builds, pageUrlOf, tokens, scans, scanPolicy }: ContainerStatusDeps) {
    if (isDryRunId(params.token)) throw dryRunHasNoStatus();
    const request = await tokens.get(params.token);
    const status = await containerStatus(builds, pageUrlOf, request);
    return withScan(status, request, scans, scanPolicy);
  },
});

/** Routes that make, show and end container requests. Source: container service specification, sections 2.4 and 4. */
export const containerRoutes = [
  apiRoute({
    ...submission,
    id: 'requestContainer',
    path: '/v1alpha2/container',
    summary: 'Request a container',
    description:
      'Returns the name of an image to pull: an existing image, an existing image with changes, or an image that the server builds.',
    responses: ok(containerResponseSchema, 'The name to pull', containerExample.response),
    run: (call, deps: ContainerDeps) => createRequest(call, 'v1alpha2', deps),
  }),
  apiRoute({
    ...submission,
    id: 'requestContainerToken',
    path: '/container-token',
    summary: 'Request a container; superseded by /v1alpha2/container',
    responses: ok(legacyResponseSchema, 'The name to pull'),
    isDeprecated: true,
    run: (call, deps: ContainerDeps) => createRequest(call, 'v1alpha1', deps),
  }),
  apiRoute({
    ...details,
    id: 'getContainer',
    path: '/v1alpha2/container/{token}',
    summary: 'Details of a container request',
    run: ({ ctx, caller, params }, deps: ContainerDeps) =>
      requestDetails(ctx.req, caller, params.token, deps),
  }),
  apiRoute({
    ...details,
    id: 'getContainerToken',
    path: '/container-token/{token}',
    summary: 'Details of a container request; superseded by /v1alpha2/container/{token}',
    isDeprecated: true,
    run: ({ ctx, caller, params }, deps: ContainerDeps) =>
      requestDetails(ctx.req, caller, params.token, deps),
  }),
  containerStatusRoute,
  apiRoute({
    id: 'endContainer',
    method: 'delete',
    path: '/container-token/{token}',
    tag,
    summary:
      'End a container request. Allowed for the person who made it with a login and for administrators',
    access: 'caller',
    params: { token },
    responses: ok(emptySchema, 'The request has ended: its name can no longer be pulled'),
    faults: ['not-found', 'unauthorized', 'denied'],
    async run({ ctx, caller, params }, deps: ContainerDeps) {
      await endRequest(ctx.req, caller, params.token, deps);
      return {};
    },
  }),
];

async function requestDetails(
  from: IncomingMessage,
  caller: Caller,
  token: string,
  { tokens, builds, requireAdministrator }: ContainerDeps,
) {
  const request = await tokens.describe(token);
  const { buildId } = request;
  // A finished build is forgotten some time after its last request.
  const build = buildId === undefined ? undefined : await builds.get(buildId).catch(ifUnknown);
  const { user, address } = request.caller;
  const mayKnow =
    isOwner(caller, request) || (await isSiteAdministrator(from, requireAdministrator));
  return {
    ...describeRequest(request, build),
    ...(mayKnow ? { ...(user === undefined ? {} : { user }), requestIp: address } : {}),
  };
}

function ifUnknown(error: unknown): undefined {
  if (!(error instanceof Fault) || error.kind !== 'build-unknown') throw error;
}

async function createRequest(call: RequestCall, version: ApiVersion, deps: ContainerDeps) {
  const { body, caller } = call;
  deps.gate.serve(body, caller);
  // The first request of a server loads and compiles most of what follows.
  await pauseTurn();
  const { submission, warnings: ofScan } = checkScanMode(body, deps, caller.user);
  const warnings = [...call.warnings, ...ofScan];
  if (submission.dryRun) {
    const forecast = await deps.dryRun(submission, version, caller, clientSignal(call.ctx.res));
    return forecastResponse(forecast, submission, warnings);
  }
  const accepted = await acceptRequest({ ...call, body: submission }, version, deps).catch(
    error => {
      throw withFieldHint(error, warnings);
    },
  );
  const response = containerResponse(accepted, version, submission.freeze, warnings);
  const { scan } = accepted.request;
  if (!scan || !deps.scans) return response;
  const { succeeded: _, ...undecided } = response as typeof response & { succeeded?: boolean };
  // A client that reads this field does not ask for the status, which has the result of the scan.
  const scanned = scan.mode === 'required' ? undecided : response;
  return { ...scanned, scanId: scan.id, scanUri: deps.scans.pageUrlOf(scan.id) };
}

/** Adds what is likely the cause of a refusal: the name of a field with a typing error. */
function withFieldHint(error: unknown, warnings: readonly string[]): unknown {
  const hint = warnings.find(
    text => text.includes(' is not a field of this API') && text.includes(': did you mean '),
  );
  const isRefusal = error instanceof Fault && error.kind === 'bad-request';
  return isRefusal && hint !== undefined ? error.withMessage(`${error.message}. ${hint}`) : error;
}

function dryRunHasNoStatus(): Fault {
  return new Fault(
    'not-found',
    'This is the id of a dry run, which has no status: its response reports everything',
    { phase: 'request' },
  );
}

/**
 * Returns the status of a container request. An existing image is done at once, any other when its build has finished.
 *
 * @param pageUrlOf address of the page of a build
 */
async function containerStatus(
  builds: Pick<Builds, 'get'>,
  pageUrlOf: (buildId: string) => string,
  { token, createdAt, buildId, fixed, asked }: ContainerRequest,
) {
  const build = fixed || buildId === undefined ? undefined : await builds.get(buildId);
  const succeeded = build ? build.succeeded : true;
  return {
    id: token,
    status: succeeded === null ? 'BUILDING' : 'DONE',
    ...(buildId === undefined
      ? {}
      : {
          [asked?.mirror ? 'mirrorId' : 'buildId']: buildId,
          detailsUri: pageUrlOf(buildId),
        }),
    ...(succeeded === null ? {} : { succeeded }),
    ...(build?.reason ? { reason: build.reason } : {}),
    creationTime: isoTime(createdAt),
    // The system clock may have been set back since then.
    duration: Math.max(0, (build?.finishedAt ?? Date.now()) - createdAt) / 1000,
  };
}

type Status = Awaited<ReturnType<typeof containerStatus>>;

/** Adds the scan to the status of a request. Source: reference service, status of a container request. */
async function withScan(
  status: Status,
  request: ContainerRequest,
  scans: ContainerStatusDeps['scans'],
  policy: ScanPolicy,
) {
  if (!request.scan) return status;
  const about = { ...status, scanId: request.scan.id };
  const isMade = status.status === 'DONE' && status.succeeded === true;
  const wanted = isMade ? scanToPass(policy, request) : undefined;
  if (!wanted) return about;
  if (!scans) return { ...about, succeeded: false, reason: 'This server no longer scans images' };
  const scan = await scans.get(wanted.id);
  const detailsUri = scans.pageUrlOf(wanted.id);
  const { succeeded: _, ...undecided } = about;
  if (scan.finishedAt === null) return { ...undecided, status: 'SCANNING', detailsUri };
  const reason = scans.refusalOf(scan, wanted.levels);
  return {
    ...about,
    succeeded: reason === undefined,
    detailsUri,
    ...(reason === undefined ? {} : { reason }),
    ...(scan.report ? { vulnerabilities: scan.report.counts } : {}),
  };
}

export interface AcceptRequestDeps {
  /** Undefined on a server without a scanner. */
  readonly scans: Scans | undefined;
  readonly accept: Accept;
  /** Limits new builds, separately from requests. */
  readonly buildLimiter: Limiter;
  readonly buildRates: CallerRates;
  readonly usage: UsageStore;
  readonly space: DiskSpace;
  readonly noteBuild: NoteBuild;
}

/** A container request of a caller who may make it. */
interface RequestCall {
  readonly ctx: Pick<ParameterizedContext, 'req' | 'res' | 'set'>;
  readonly body: Submission;
  readonly caller: Caller;
  readonly warnings: readonly string[];
  /** Requests that the rate limit still allows the caller; undefined without a limit. */
  readonly left: Allowance | undefined;
}

// Approximate size of a request in the database.
const rowBytes = 4096;

/** Accepts a container request, begins its scan, and counts the build that it begins. Throws a `Fault`. */
export async function acceptRequest(
  { ctx, body, caller, left }: Omit<RequestCall, 'warnings'>,
  version: ApiVersion,
  { accept, buildLimiter, buildRates, usage, space, noteBuild, scans }: AcceptRequestDeps,
): Promise<Accepted> {
  const { containerPlatform, containerImage, mirror } = body;
  const arch = countedArchitecture(containerPlatform, containerImage === undefined);
  const onBuild = () => {
    const limit = rateFor(buildRates, caller, caller.address);
    const builds = limit && buildLimiter.take(limit.key, limit.rate, limit.advice);
    // The headers report the limit that will be reached first.
    if (builds && builds.remaining < (left?.remaining ?? Number.POSITIVE_INFINITY)) {
      ctx.set(limitHeaders(builds));
    }
    usage.add(mirror ? 'mirrors' : 'builds', dayOf(Date.now()), caller.org, arch);
    return () => limit && buildLimiter.giveBack(limit.key, limit.rate);
  };
  space.take(rowBytes);
  let begins = false;
  const noteBegin = () => {
    const giveBack = onBuild();
    begins = true;
    return () => {
      begins = false;
      return giveBack();
    };
  };
  try {
    const accepted = await accept(body, version, caller, noteBegin, clientSignal(ctx.res));
    if (begins) noteBuild(ctx.req, accepted.request);
    if (accepted.request.scan && scans) {
      await scans.begin(accepted.request);
      usage.add('scans', dayOf(Date.now()), caller.org, arch);
    }
    return accepted;
  } catch (error) {
    if (begins) noteBuild(ctx.req);
    throw error;
  }
}
