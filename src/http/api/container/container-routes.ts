import type { ParameterizedContext } from 'koa';
import { z } from 'zod';
import type { Builds } from '../../../builds/builds.ts';
import { Fault } from '../../../foundation/fault.ts';
import { formatReference } from '../../../oci/reference.ts';
import type { Accept } from '../../../request/accept.ts';
import type { Caller } from '../../../request/container-request.ts';
import type { DryRun } from '../../../request/dry-run.ts';
import { type ApiVersion, isToBeMade, type Submission } from '../../../request/submission.ts';
import type { TokenRegistry } from '../../../request/tokens/token-registry.ts';
import type { DiskSpace } from '../../../storage/directory/disk-space.ts';
import type { UsageStore } from '../../../storage/rows/images/usage-rows.ts';
import type { NoteDeed } from '../../callers/audit-notes.ts';
import { type CallerRates, rateFor } from '../../limits/caller-rates.ts';
import { type Allowance, type Limiter, limitHeaders } from '../../limits/limiter.ts';
import { ok } from '../../route/declaration.ts';
import { apiRoute } from '../api-route.ts';
import {
  containerAnswerSchema,
  containerDetailsSchema,
  containerStatusSchema,
  emptySchema,
  legacyAnswerSchema,
} from './answer-schema.ts';
import {
  containerAnswer,
  describeRequest,
  forecastAnswer,
  isDryRunId,
} from './container-answer.ts';
import { containerExample } from './container-examples.ts';
import { containerRequestSchema } from './container-schema.ts';
import { containerStatus } from './container-status.ts';
import { createFieldCheck } from './field-check.ts';

export interface ContainerDeps {
  readonly accept: Accept;
  readonly dryRun: DryRun;
  readonly noteDeed: NoteDeed;
  readonly tokens: TokenRegistry;
  /** Limits new builds, separately from requests. */
  readonly buildLimiter: Limiter;
  readonly buildRates: CallerRates;
  readonly usage: UsageStore;
  readonly builds: Builds;
  /** Address of the log of a build. */
  readonly logUrlOf: (buildId: string) => string;
  readonly space: DiskSpace;
}

// Approximate size of a request in the database.
const rowBytes = 4096;

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

/** Routes that make, show and end container requests. Source: container service specification, sections 2.4 and 4. */
export const containerRoutes = [
  apiRoute({
    id: 'requestContainer',
    method: 'post',
    path: '/v1alpha2/container',
    tag,
    summary: 'Request a container',
    description:
      'Returns the name of an image to pull: an existing image, an existing image with changes, or an image that the server builds.',
    access: 'requests',
    limit: 'requests',
    body: requestBody,
    answers: ok(containerAnswerSchema, 'The name to pull', containerExample.answer),
    faults: upstreamFaults,
    claim: ({ body }) => body,
    run: (call, deps: ContainerDeps) => create(call, 'v1alpha2', deps),
  }),
  apiRoute({
    id: 'requestContainerToken',
    method: 'post',
    path: '/container-token',
    tag,
    summary: 'Request a container; superseded by /v1alpha2/container',
    access: 'requests',
    limit: 'requests',
    body: requestBody,
    answers: ok(legacyAnswerSchema, 'The name to pull'),
    faults: upstreamFaults,
    isDeprecated: true,
    claim: ({ body }) => body,
    run: (call, deps: ContainerDeps) => create(call, 'v1alpha1', deps),
  }),
  apiRoute({
    id: 'getContainer',
    method: 'get',
    path: '/v1alpha2/container/{token}',
    tag,
    summary: 'Details of a container request',
    access: 'anybody',
    params: { token },
    answers: ok(containerDetailsSchema, 'The request, and the images that it stands for'),
    faults: ['not-found'],
    run: async ({ params }, { tokens }: ContainerDeps) =>
      describeRequest(await tokens.describe(params.token)),
  }),
  apiRoute({
    id: 'getContainerToken',
    method: 'get',
    path: '/container-token/{token}',
    tag,
    summary: 'Details of a container request; superseded by /v1alpha2/container/{token}',
    access: 'anybody',
    params: { token },
    answers: ok(containerDetailsSchema, 'The request, and the images that it stands for'),
    faults: ['not-found'],
    isDeprecated: true,
    run: async ({ params }, { tokens }: ContainerDeps) =>
      describeRequest(await tokens.describe(params.token)),
  }),
  apiRoute({
    id: 'getContainerStatus',
    method: 'get',
    path: '/v1alpha2/container/{token}/status',
    tag,
    summary: 'State of a container request',
    access: 'anybody',
    params: { token },
    answers: ok(containerStatusSchema, 'The state', containerExample.status),
    faults: ['not-found'],
    async run({ params }, { builds, logUrlOf, tokens }: ContainerDeps) {
      if (isDryRunId(params.token)) throw dryRunHasNoStatus();
      return containerStatus(builds, logUrlOf, await tokens.get(params.token));
    },
  }),
  apiRoute({
    id: 'endContainer',
    method: 'delete',
    path: '/container-token/{token}',
    tag,
    summary: 'Revoke a container request',
    access: 'administrator',
    params: { token },
    answers: ok(emptySchema, 'The request is revoked: its name can no longer be pulled'),
    faults: ['not-found'],
    async run({ ctx, params }, { tokens, noteDeed }: ContainerDeps) {
      await tokens.revoke(params.token);
      const { label, image } = await tokens.describe(params.token);
      noteDeed(ctx.req, 'request.end', `${label} of ${formatReference(image)}`);
      return {};
    },
  }),
];

interface CreateCall {
  readonly ctx: Pick<ParameterizedContext, 'res' | 'set'>;
  readonly body: Submission;
  readonly caller: Caller;
  readonly warnings: readonly string[];
  readonly left: Allowance | undefined;
}

async function create(
  { ctx, body: submission, caller, warnings, left }: CreateCall,
  version: ApiVersion,
  deps: ContainerDeps,
) {
  const gone = new AbortController();
  ctx.res.once('close', () => gone.abort());
  if (submission.dryRun) {
    const forecast = await deps.dryRun(submission, version, caller, gone.signal);
    return forecastAnswer(forecast, submission, warnings);
  }
  const onBuild = () => {
    const limit = rateFor(deps.buildRates, caller, caller.address);
    const builds = limit && deps.buildLimiter.take(limit.key, limit.rate, limit.advice);
    // The headers report the limit that will be reached first.
    if (builds && builds.remaining < (left?.remaining ?? Number.POSITIVE_INFINITY)) {
      ctx.set(limitHeaders(builds));
    }
    deps.usage.add('builds', new Date().toISOString().slice(0, 10), caller.org);
    return () => limit && deps.buildLimiter.giveBack(limit.key, limit.rate);
  };
  deps.space.take(rowBytes);
  const accepted = await deps.accept(submission, version, caller, onBuild, gone.signal);
  return containerAnswer(accepted, version, submission.freeze, warnings);
}

function dryRunHasNoStatus(): Fault {
  return new Fault(
    'not-found',
    'This is the id of a dry run, which has no status: its answer reports everything',
    { phase: 'request' },
  );
}
