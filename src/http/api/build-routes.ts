import { Readable } from 'node:stream';
import type { Router, RouterContext } from '@koa/router';
import { maskAddresses } from '../../buildkit/index.ts';
import type { BuildLogs } from '../../builds/build-logs.ts';
import type { Builds, Cancellation } from '../../builds/builds.ts';
import { type BuildPlan, pullName } from '../../builds/plan/build-plan.ts';
import { Fault } from '../../foundation/fault.ts';
import type { Digest } from '../../oci/digest.ts';
import { parseReference } from '../../oci/reference.ts';
import type { BuildRow } from '../../storage/rows/images/build-rows.ts';
import type { NoteDeed } from '../callers/audit-notes.ts';
import type { RequireAdministrator } from '../callers/basic-auth.ts';
import { callerAddress, networkOf } from '../callers/client-address.ts';
import type { Identify } from '../callers/identify.ts';
import type { RequestState } from '../request-state.ts';
import { queryOf } from '../request-target.ts';
import { logEvents } from './log-events.ts';

export interface BuildRoutesDeps {
  readonly builds: Builds;
  readonly logs: BuildLogs;
  readonly requireAdministrator: RequireAdministrator;
  readonly identify: Identify;
  readonly trustedProxies: number;
  readonly noteDeed: NoteDeed;
  /** Address of a registry. */
  readonly urlOf: (registry: string) => string;
}

// Below the minute after which proxies end a connection that is quiet.
const quietMs = 15_000;

/** Builds: details, status, logs. Source: container service specification, sections 2.5 and 4. */
export function buildRoutes(
  router: Router<RequestState>,
  {
    builds,
    logs,
    requireAdministrator,
    identify,
    trustedProxies,
    urlOf,
    noteDeed,
  }: BuildRoutesDeps,
): void {
  const idOf = (ctx: RouterContext<RequestState>): string => ctx.params.id ?? '';

  router.get('/v1alpha1/builds/:id', async ctx => {
    const build = await builds.get(idOf(ctx));
    const isQueued = build.startedAt === null && build.finishedAt === null;
    ctx.body = {
      ...details(build, urlOf),
      ...(isQueued ? { waitsFor: builds.waitsFor(build) } : {}),
    };
  });

  router.get('/v1alpha1/builds/:id/status', async ctx => {
    ctx.body = status(await builds.get(idOf(ctx)));
  });

  router.get('/v1alpha1/builds/:id/logs', async ctx => {
    const { id } = await builds.get(idOf(ctx));
    const asEvents = ctx.get('accept').includes('text/event-stream');
    const isFollowed =
      asEvents || ['true', '1', ''].includes(queryOf(ctx.req).get('follow') ?? 'no');
    if (!isFollowed) {
      ctx.type = 'text/plain; charset=utf-8';
      ctx.body = (await logs.read(id)) ?? '';
      return;
    }
    const gone = new AbortController();
    ctx.res.once('close', () => gone.abort());
    const pieces = logs.follow(id, gone.signal);
    ctx.type = asEvents ? 'text/event-stream' : 'text/plain; charset=utf-8';
    ctx.set('cache-control', 'no-store');
    // nginx would keep lines back until it has some kilobytes of them.
    ctx.set('x-accel-buffering', 'no');
    const sent = asEvents ? logEvents(pieces, quietMs) : pieces;
    ctx.body = Readable.from(sent, { objectMode: false });
    // A build that waits writes nothing, and clients wait for headers as long as they have a mind to.
    ctx.flushHeaders();
  });

  router.get('/v1alpha1/builds/:id/condalock', async ctx => {
    const { lockFile } = await builds.get(idOf(ctx));
    if (lockFile === null) {
      throw new Fault('not-found', 'This build has no lock file', { phase: 'request' });
    }
    ctx.type = 'text/plain; charset=utf-8';
    ctx.body = lockFile;
  });

  /** The owner of what a caller asks for: the same as that of the builds. */
  const ownerOf = async ({ req }: RouterContext<RequestState>): Promise<string> => {
    const platformEndpoint = queryOf(req).get('towerEndpoint') ?? undefined;
    const identity = await identify(req, { platformEndpoint });
    return identity?.user ?? networkOf(callerAddress(req, trustedProxies));
  };

  router.delete('/v1alpha1/builds/:id', async ctx => {
    const owner = await ownerOf(ctx);
    const { id } = await builds.get(idOf(ctx));
    const isOwn = await builds.isAsker(id, owner);
    if (!isOwn) await requireAdministrator(ctx.req).catch(refuseCancel);
    const outcome = await builds.cancel(id, isOwn ? owner : undefined);
    if (outcome === 'cancelled') noteDeed(ctx.req, 'build.cancel', id);
    ctx.body = { id, cancelled: outcome === 'cancelled', message: cancelWords[outcome] };
  });
}

const cancelWords: Readonly<Record<Cancellation, string>> = {
  cancelled: 'The build was cancelled',
  'others-wait': 'The build goes on: other callers wait for it',
  over: 'The build is finished',
};

/** Throws why somebody else may not end a build. */
function refuseCancel(error: unknown): never {
  if (!(error instanceof Fault) || !['unauthorized', 'denied'].includes(error.kind)) throw error;
  throw error.retold(
    `Only the caller who asked for a build, or an administrator, can cancel it: ${error.message}`,
  );
}

/** Source: container service specification, section 2.5. */
function status({ id, createdAt, finishedAt, succeeded }: BuildRow) {
  const isOver = finishedAt !== null;
  return {
    id,
    status: isOver ? 'COMPLETED' : 'PENDING',
    startTime: new Date(createdAt).toISOString(),
    ...(isOver ? { duration: (finishedAt - createdAt) / 1000, succeeded } : {}),
  };
}

function details(build: BuildRow, urlOf: BuildRoutesDeps['urlOf']) {
  const { origin, sif } = JSON.parse(build.plan) as BuildPlan;
  return {
    ...status(build),
    buildId: build.id,
    targetImage: pullName({ target: build.target, sif }),
    format: sif ? 'sif' : 'docker',
    // For clients that know no ORAS: `singularity pull https://...`.
    ...(build.file === null ? {} : { file: blobUrl(build.target, build.file, urlOf) }),
    ...(origin.kind === 'recipe'
      ? { containerFile: maskAddresses(origin.dockerfile), platforms: origin.platforms }
      : {}),
    ...(build.digest === null ? {} : { digest: build.digest }),
    ...(build.reason === null ? {} : { reason: build.reason }),
    ...(build.finishedAt === null
      ? { phase: build.startedAt === null ? 'queued' : 'running' }
      : {}),
  };
}

function blobUrl(target: string, digest: Digest, urlOf: BuildRoutesDeps['urlOf']): string {
  const { registry, repository } = parseReference(target);
  return `${urlOf(registry)}/v2/${repository}/blobs/${digest}`;
}
