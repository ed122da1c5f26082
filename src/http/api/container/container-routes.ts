import type { IncomingMessage } from 'node:http';
import { z } from 'zod';
import type { Builds } from '../../../builds/index.ts';
import { Fault } from '../../../foundation/fault.ts';
import {
  type ApiVersion,
  type Caller,
  type ContainerRequest,
  type DryRun,
  isToBeMade,
  type Submission,
} from '../../../request/index.ts';
import { isSiteAdministrator } from '../../callers/basic-auth.ts';
import type { Gate } from '../../gates/access-gate.ts';
import { clientSignal } from '../../request-state.ts';
import { ok } from '../../route/declaration.ts';
import { apiRoute } from '../api-route.ts';
import { type AcceptRequestDeps, acceptRequest, type RequestCall } from './accept-request.ts';
import { containerExample } from './container-examples.ts';
import {
  containerResponse,
  describeRequest,
  forecastResponse,
  isDryRunId,
  isoTime,
} from './container-response.ts';
import { containerRequestSchema } from './container-schema.ts';
import { type EndRequestDeps, endRequest, isOwner } from './end-request.ts';
import { createFieldCheck } from './field-check.ts';
import {
  containerDetailsSchema,
  containerResponseSchema,
  containerStatusSchema,
  emptySchema,
  legacyResponseSchema,
} from './response-schema.ts';

export interface ContainerDeps extends AcceptRequestDeps, EndRequestDeps {
  readonly gate: Gate;
  readonly dryRun: DryRun;
  readonly builds: Builds;
  /** Address of the page of a build. */
  readonly pageUrlOf: (buildId: string) => string;
}

const tag = 'Containers';
const token = z.string().describe('`containerToken` or `requestId` of the answer to the request');
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
    run: (call, deps: ContainerDeps) => create(call, 'v1alpha2', deps),
  }),
  apiRoute({
    ...submission,
    id: 'requestContainerToken',
    path: '/container-token',
    summary: 'Request a container; superseded by /v1alpha2/container',
    responses: ok(legacyResponseSchema, 'The name to pull'),
    isDeprecated: true,
    run: (call, deps: ContainerDeps) => create(call, 'v1alpha1', deps),
  }),
  apiRoute({
    ...details,
    id: 'getContainer',
    path: '/v1alpha2/container/{token}',
    summary: 'Details of a container request',
    run: ({ ctx, caller, params }, deps: ContainerDeps) =>
      describe(ctx.req, caller, params.token, deps),
  }),
  apiRoute({
    ...details,
    id: 'getContainerToken',
    path: '/container-token/{token}',
    summary: 'Details of a container request; superseded by /v1alpha2/container/{token}',
    isDeprecated: true,
    run: ({ ctx, caller, params }, deps: ContainerDeps) =>
      describe(ctx.req, caller, params.token, deps),
  }),
  apiRoute({
    id: 'getContainerStatus',
    method: 'get',
    path: '/v1alpha2/container/{token}/status',
    tag,
    summary: 'State of a container request',
    access: 'anybody',
    params: { token },
    responses: ok(containerStatusSchema, 'The state', containerExample.status),
    faults: ['not-found'],
    async run({ params }, { builds, pageUrlOf, tokens }: ContainerDeps) {
      if (isDryRunId(params.token)) throw dryRunHasNoStatus();
      return containerStatus(builds, pageUrlOf, await tokens.get(params.token));
    },
  }),
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

async function describe(
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

async function create(call: RequestCall, version: ApiVersion, deps: ContainerDeps) {
  const { body: submission, caller, warnings } = call;
  deps.gate.serve(submission);
  if (submission.dryRun) {
    const forecast = await deps.dryRun(submission, version, caller, clientSignal(call.ctx.res));
    return forecastResponse(forecast, submission, warnings);
  }
  const accepted = await acceptRequest(call, version, deps).catch(error => {
    throw withFieldHint(error, warnings);
  });
  return containerResponse(accepted, version, submission.freeze, warnings);
}

/** Adds what is likely the cause of a refusal: the name of a field with a typing error. */
function withFieldHint(error: unknown, warnings: readonly string[]): unknown {
  const hint = warnings.find(
    text => text.includes(' is not a field of this API') && text.includes(': did you mean '),
  );
  const isRefusal = error instanceof Fault && error.kind === 'bad-request';
  return isRefusal && hint !== undefined ? error.retold(`${error.message}. ${hint}`) : error;
}

function dryRunHasNoStatus(): Fault {
  return new Fault(
    'not-found',
    'This is the id of a dry run, which has no status: its answer reports everything',
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
