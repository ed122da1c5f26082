import type { IncomingMessage } from 'node:http';
import { Readable } from 'node:stream';
import type { ParameterizedContext } from 'koa';
import { z } from 'zod';
import { maskAddresses } from '../../../buildkit/index.ts';
import type {
  BuildLogs,
  Builds,
  Cancellation,
  LogOptions,
  Requester,
} from '../../../builds/index.ts';
import { type BuildPlan, pullName, recipeIn } from '../../../builds/plan/build-plan.ts';
import { type DocumentName, documentForms } from '../../../conda/index.ts';
import { Fault } from '../../../foundation/fault.ts';
import type { Digest } from '../../../oci/digest.ts';
import { parseReference } from '../../../oci/naming.ts';
import { limitsIn, requireScope } from '../../../platform/built-in/index.ts';
import type { Caller } from '../../../request/index.ts';
import type { BuildRow } from '../../../storage/rows/index.ts';
import type { RecordAudit } from '../../callers/audit-notes.ts';
import { isSiteAdministrator, type RequireAdministrator } from '../../callers/identify.ts';
import { networkOf } from '../../client-address.ts';
import { clientSignal } from '../../request-state.ts';
import { ok } from '../../route/declaration.ts';
import { apiRoute } from '../api-route.ts';
import {
  buildCancelSchema,
  buildDetailsSchema,
  buildStatusSchema,
} from '../container/response-schema.ts';

export interface BuildRoutesDeps extends CancelDeps {
  readonly logs: BuildLogs;
  /** Address of a registry. */
  readonly urlOf: (registry: string) => string;
}

// Proxies close a connection that is idle for a minute.
const quietMs = 15_000;

const tag = 'Builds';
const params = {
  buildId: z.string().describe('`buildId` of the response to the container request'),
};
const plainText = 'text/plain; charset=utf-8';
const eventStream = 'text/event-stream';

const flags = new Map<unknown, boolean>([
  ...['true', '1', ''].map(text => [text, true] as const),
  ...['false', '0'].map(text => [text, false] as const),
]);
const flag = z.preprocess(value => flags.get(value) ?? value, z.boolean('must be true or false'));
const logQuery = z.object({
  follow: flag.optional().describe('`true`: stream the log until the build is finished'),
  colors: flag
    .optional()
    .describe('`true`: keep the sequences that colour text on a terminal. Default: plain text'),
});
const platformQuery = z.object({
  towerEndpoint: z
    .string()
    .optional()
    .describe('Address of the platform that issued the access token in the Authorization header'),
});

export const buildStatusRoute = apiRoute({
  id: 'getBuildStatus',
  method: 'get',
  path: '/v1alpha1/builds/{buildId}/status',
  tag,
  summary: 'State of a build',
  access: 'anybody',
  params,
  responses: ok(buildStatusSchema, 'The state'),
  faults: ['not-found'],
  run: async ({ params: { buildId } }, { builds }: { readonly builds: Pick<Builds, 'get'> }) =>
    statusOf(await builds.get(buildId)),
});

/** Routes of builds: details, status, logs. Source: container service specification, sections 2.5 and 4. */
export const buildRoutes = [
  apiRoute({
    id: 'getBuild',
    method: 'get',
    path: '/v1alpha1/builds/{buildId}',
    tag,
    summary: 'Details of a build',
    access: 'caller',
    params,
    responses: ok(buildDetailsSchema, 'The build'),
    faults: ['not-found'],
    async run({ ctx, caller, params: { buildId } }, deps: BuildRoutesDeps) {
      const { builds, urlOf, requireAdministrator } = deps;
      const build = await builds.get(buildId);
      const isQueued = build.startedAt === null && build.finishedAt === null;
      return {
        ...detailsOf(build, urlOf),
        ...((caller.user !== undefined && caller.user === build.owner) ||
        (await isSiteAdministrator(ctx.req, requireAdministrator))
          ? ownerIn(build)
          : {}),
        ...(isQueued ? { waitsFor: builds.waitsFor(build) } : {}),
      };
    },
  }),
  buildStatusRoute,
  apiRoute({
    id: 'getBuildLogs',
    method: 'get',
    path: '/v1alpha1/builds/{buildId}/logs',
    tag,
    summary: 'Log of a build',
    description:
      'With `Accept: text/event-stream` the log is followed too, and each line is an event; the last event is `end`.',
    access: 'anybody',
    params,
    query: logQuery,
    responses: { 200: { about: 'The log', types: [plainText, eventStream] } },
    faults: ['not-found'],
    async run({ ctx, params: { buildId }, query }, { builds, logs }: BuildRoutesDeps) {
      const { id, finishedAt } = await builds.get(buildId);
      const asEvents = ctx.get('accept').includes(eventStream);
      if (asEvents) ctx.type = eventStream;
      const options = { hasColours: query.colors, isEnded: finishedAt !== null };
      if (asEvents || query.follow) return followedLog(logs, id, { ...options, asEvents }, ctx);
      return (await logs.read(id, options)) ?? '';
    },
  }),
  apiRoute({
    id: 'getBuildLockFile',
    method: 'get',
    path: '/v1alpha1/builds/{buildId}/condalock',
    tag,
    summary: 'Lock file of the installed packages',
    access: 'anybody',
    params,
    responses: { 200: { about: 'The lock file', types: [plainText] } },
    faults: ['not-found'],
    async run({ params: { buildId } }, { builds }: BuildRoutesDeps) {
      return builds.document(buildId, 'explicit');
    },
  }),
  apiRoute({
    id: 'cancelBuild',
    method: 'delete',
    path: '/v1alpha1/builds/{buildId}',
    tag,
    summary: 'Cancel a build. Allowed for the caller who requested it and for administrators',
    access: 'caller',
    params,
    query: platformQuery,
    responses: ok(buildCancelSchema, 'Whether the build was cancelled'),
    faults: ['not-found', 'unauthorized', 'denied', 'too-many-requests'],
    claim: ({ query }) => ({ platformEndpoint: query.towerEndpoint }),
    async run({ ctx, caller, params: { buildId } }, deps: BuildRoutesDeps) {
      const { id, outcome } = await cancelBuild(ctx.req, caller, buildId, deps);
      return { id, cancelled: outcome === 'cancelled', message: cancelWords[outcome] };
    },
  }),
];

/** Streams the log of a build while the build writes it. Sends the headers at once. */
function followedLog(
  logs: BuildLogs,
  id: string,
  { asEvents, ...options }: LogOptions & { readonly asEvents: boolean },
  ctx: ParameterizedContext,
): Readable {
  const pieces = logs.follow(id, clientSignal(ctx.res), options);
  ctx.set('cache-control', 'no-store');
  // Otherwise nginx buffers several kilobytes of lines.
  ctx.set('x-accel-buffering', 'no');
  const sent = asEvents ? logEvents(pieces, quietMs) : pieces;
  const body = Readable.from(sent, { objectMode: false });
  ctx.body = body;
  // A queued build writes nothing, and some clients wait only briefly for headers.
  ctx.flushHeaders();
  return body;
}

const cancelWords: Readonly<Record<Cancellation, string>> = {
  cancelled: 'The build was cancelled',
  'others-wait': 'The build continues: other callers wait for it',
  over: 'The build is finished',
};

/** Source: container service specification, section 2.5. */
function statusOf({ id, createdAt, startedAt, finishedAt, succeeded }: BuildRow) {
  const isOver = finishedAt !== null;
  return {
    id,
    status: isOver ? 'COMPLETED' : 'PENDING',
    startTime: new Date(createdAt).toISOString(),
    ...(isOver
      ? { duration: (finishedAt - createdAt) / 1000, succeeded }
      : { phase: startedAt === null ? 'queued' : 'running' }),
  };
}

/** Builds of callers without a login are recorded with the network of their address. */
function ownerIn({ owner, isTrusted }: BuildRow) {
  return isTrusted ? { user: owner } : { requestIp: owner };
}

function detailsOf(build: BuildRow, urlOf: BuildRoutesDeps['urlOf']) {
  const plan = JSON.parse(build.plan) as BuildPlan;
  const { sif } = plan;
  const recipe = recipeIn(plan);
  const dockerFile = maskAddresses(recipe?.dockerfile ?? '');
  const conda = recipe?.files['conda.yml'];
  const compression = sif?.compression ?? recipe?.layers;
  return {
    ...statusOf(build),
    buildId: build.id,
    targetImage: pullName({ target: build.target, sif }),
    format: sif ? 'sif' : 'docker',
    // For clients without ORAS support: `singularity pull https://...`.
    ...(build.file === null ? {} : { file: blobUrl(build.target, build.file, urlOf) }),
    ...(recipe
      ? {
          ...(recipe.native ? {} : { containerFile: dockerFile, dockerFile }),
          ...(conda === undefined ? {} : { condaFile: maskAddresses(conda) }),
          platforms: recipe.platforms,
          platform: recipe.platforms.join(','),
        }
      : {}),
    ...(compression ? { compression } : {}),
    ...(build.succeeded === null ? {} : { exitStatus: build.succeeded ? 0 : 1 }),
    ...(build.digest === null ? {} : { digest: build.digest }),
    ...(build.reason === null ? {} : { reason: build.reason }),
  };
}

function blobUrl(target: string, digest: Digest, urlOf: BuildRoutesDeps['urlOf']): string {
  const { registry, repository } = parseReference(target);
  return `${urlOf(registry)}/v2/${repository}/blobs/${digest}`;
}

/**
 * Yields a text as server-sent events: one event for each line, then `end`. Sends a comment after each quiet period,
 * because proxies close idle connections.
 * Source: WHATWG HTML, Server-sent events.
 *
 * @param quietMs length of a quiet period, ms
 */
export async function* logEvents(
  pieces: AsyncIterator<Buffer>,
  quietMs: number,
): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  let rest = '';
  try {
    for (let next = pieces.next(); ; ) {
      const found = await inTime(next, quietMs);
      if (!found) {
        yield ':\n\n';
        continue;
      }
      if (found.done) break;
      const lines = (rest + decoder.decode(found.value, { stream: true })).split('\n');
      rest = lines.pop() ?? '';
      for (const line of lines) yield eventOf(line);
      next = pieces.next();
    }
  } finally {
    await pieces.return?.();
  }
  if (rest !== '') yield eventOf(rest);
  yield 'event: end\ndata:\n\n';
}

/** Splits at carriage returns too: progress output contains them, and they also end a line of an event. */
function eventOf(line: string): string {
  const parts = line.replace(/\r$/, '').split('\r');
  return `${parts.map(part => `data: ${part}\n`).join('')}\n`;
}

/** Returns undefined if the work takes longer than `ms`. */
async function inTime<T>(work: Promise<T>, ms: number): Promise<T | undefined> {
  const { promise, resolve } = Promise.withResolvers<undefined>();
  const timer = setTimeout(resolve, ms, undefined);
  try {
    return await Promise.race([work, promise]);
  } finally {
    clearTimeout(timer);
  }
}

interface BuildDocumentsDeps {
  readonly builds: Pick<Builds, 'document'>;
}

const lockForms = ['explicit', 'pixi', 'conda-lock'] as const;
const billForms = ['spdx', 'cyclonedx'] as const;

const typesOf = (names: readonly DocumentName[]) => [
  ...new Set(names.map(name => documentForms[name].mediaType)),
];

/** Routes of the documents about the packages of an image. */
export const buildDocumentRoutes = [
  apiRoute({
    id: 'getBuildLock',
    method: 'get',
    path: '/v1alpha1/builds/{buildId}/lock',
    tag: tag,
    summary: 'Lock file of the packages that were installed',
    description:
      'A request with this lock file gives the same packages. Images that BuildKit made have the explicit lock file only.',
    access: 'anybody',
    params: params,
    query: z.object({
      format: z
        .enum(lockForms)
        .optional()
        .describe(
          '`explicit` (default), `pixi` for a `pixi.lock`, or `conda-lock` for a `conda-lock.yml`',
        ),
    }),
    responses: { 200: { about: 'The lock file', types: typesOf(lockForms) } },
    faults: ['not-found', 'unavailable'],
    async run(
      { ctx, params: { buildId }, query: { format = 'explicit' } },
      { builds }: BuildDocumentsDeps,
    ) {
      ctx.type = documentForms[format].mediaType;
      return builds.document(buildId, format);
    },
  }),
  apiRoute({
    id: 'getBuildSbom',
    method: 'get',
    path: '/v1alpha1/builds/{buildId}/sbom',
    tag: tag,
    summary: 'Bill of materials of the packages that were installed',
    description:
      'Lists the Conda packages, without the packages of the base image. Images that BuildKit made have none.',
    access: 'anybody',
    params: params,
    query: z.object({
      format: z
        .enum(billForms)
        .optional()
        .describe('`spdx` (default) for SPDX 2.3, or `cyclonedx` for CycloneDX 1.6'),
    }),
    responses: { 200: { about: 'The bill of materials', types: typesOf(billForms) } },
    faults: ['not-found', 'unavailable'],
    async run(
      { ctx, params: { buildId }, query: { format = 'spdx' } },
      { builds }: BuildDocumentsDeps,
    ) {
      ctx.type = documentForms[format].mediaType;
      return builds.document(buildId, format);
    },
  }),
];

export interface CancelDeps {
  readonly builds: Builds;
  readonly requireAdministrator: RequireAdministrator;
  readonly recordAudit: RecordAudit;
}

/** Returns the caller as builds record who has requested them. */
export function requesterOf({ user, address, rights }: Caller): Requester {
  return { owner: user ?? networkOf(address), limits: limitsIn(rights) };
}

/** Cancels a build for a caller who requested it, or for an administrator. Throws a `Fault`: 403, 404. */
export async function cancelBuild(
  request: IncomingMessage,
  caller: Caller,
  buildId: string,
  { builds, requireAdministrator, recordAudit }: CancelDeps,
): Promise<{ readonly id: string; readonly outcome: Cancellation }> {
  const requester = requesterOf(caller);
  const { id } = await builds.get(buildId);
  const isOwn = await builds.isCaller(id, requester);
  if (isOwn) requireScope(caller.rights, 'build');
  else await requireAdministrator(request, 'site').catch(refuseCancel);
  const outcome = await builds.cancel(id, isOwn ? requester : undefined);
  if (outcome === 'cancelled') recordAudit(request, 'build.cancel', id);
  return { id, outcome };
}

/** Throws the reason why the caller may not cancel another caller's build. */
function refuseCancel(error: unknown): never {
  if (!(error instanceof Fault) || !['unauthorized', 'denied'].includes(error.kind)) throw error;
  throw error.withMessage(
    `Only the caller who requested a build, or an administrator, can cancel it: ${error.message}`,
  );
}
