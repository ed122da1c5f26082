import type { IncomingMessage } from 'node:http';
import Koa from 'koa';
import { Fault } from '../../foundation/fault.ts';
import { noTally } from '../../foundation/telemetry/counted.ts';
import {
  addLeadMetric,
  addReadReplicaMetrics,
  createMetricsRegistry,
  withMetrics,
} from '../../foundation/telemetry/index.ts';
import {
  admitHandedOn,
  type Check,
  createHostCheck,
  createObserver,
  gate,
  handedOnHeaders,
  keepBuildersToImages,
  limitRequestsAtOnce,
  outermost,
  type RequestState,
  requireOwnHost,
  sendValue,
  traceRequests,
} from '../../http/index.ts';
import type { UpstreamDeps } from '../assembly/registry-clients.ts';
import { ownHosts } from '../config/read/index.ts';
import type { Entry } from '../entries.ts';
import { type CurrentLeader, usualPatienceMs } from './current-leader.ts';
import { createHandOn, type HandOn, handOnUpgrade, type WholeResponse } from './hand-on.ts';
import { createOrderedBlobs } from './ordered-blobs.ts';
import { createOwnReads } from './reads/own-reads.ts';

/** A replica that does not lead. */
export interface Follower {
  readonly entry: Entry;
  /** Reports the server as not ready for new work. */
  drain(): void;
  /** Reports why this replica cannot lead, except to balancers: it hands requests on. Undefined: it can. */
  hinder(reason: string | undefined): void;
  /** Notes what the database said last: true when its rows have the schema of this version. */
  noteReadable(isReadable: boolean): void;
  /** Hands on all requests from now on: this replica takes the lead, or has had it. */
  endReads(): Promise<void>;
  close(): Promise<void>;
}

const alive = { status: 'ok' };

/**
 * Answers pulls, see {@link OwnReads}. Hands all other requests on to the replica that leads, except for those about this
 * process: `/healthz`, `/health`, `/metrics` and `/readyz`.
 */
export function createFollower(deps: UpstreamDeps, leader: CurrentLeader, proof: string): Follower {
  const { config, publicUrl, log } = deps;
  const metrics = createMetricsRegistry();
  addLeadMetric(metrics, () => false);
  const orderedBlobs = createOrderedBlobs(deps, metrics);
  const handOn = createHandOn(leader, proof, orderedBlobs);
  const reads = createOwnReads({ ...deps, blobs: orderedBlobs, handOn });
  addReadReplicaMetrics(metrics, reads.readReplica);
  const readiness = createFollowerReadiness(handOn);
  let isDraining = false;
  let hindrance: string | undefined;
  // What it answers itself. The leader counts the others by their routes.
  const own = new Set(['/healthz', '/health', '/metrics', '/readyz']);
  const koa = new Koa<RequestState>();
  koa.silent = true;
  if (config.traces.endpoint) koa.use(traceRequests);
  koa.use(
    outermost({
      log,
      publicUrl,
      trustedProxies: config.trustedProxies,
      observe: createObserver(metrics),
      tally: withMetrics(noTally, metrics),
    }),
  );
  const { perAddress } = config.limits.connections;
  const refuseHandedOn: Check = ({ req }) => {
    if (admitHandedOn(req, proof)) throw notLeading();
  };
  koa.use(
    gate(
      refuseHandedOn,
      requireOwnHost(createHostCheck(ownHosts(config, publicUrl))),
      keepBuildersToImages,
      limitRequestsAtOnce(perAddress, config.trustedProxies),
    ),
  );
  koa.use(async ctx => {
    const { req, res, path, method } = ctx;
    if (own.has(path)) ctx.state.route = path;
    if (method === 'GET' && path === '/healthz') sendValue(ctx, alive);
    else if (method === 'GET' && path === '/health') sendValue(ctx, { status: 'UP' });
    else if (method === 'GET' && path === '/metrics') {
      ctx.type = metrics.contentType;
      ctx.body = await metrics.metrics();
    } else if (path === '/readyz' && (method === 'GET' || method === 'HEAD')) {
      if (isDraining)
        throw new Fault(
          'unavailable',
          'The server is stopping: use another one, or try again when it has started',
        );
      if (hindrance !== undefined && ctx.query.for === undefined)
        throw new Fault('unavailable', hindrance, { phase: 'store' });
      const { status, body } = await readiness(req);
      Object.assign(ctx, { status, type: 'json', body });
    } else if (!(await reads.answers(ctx))) {
      ctx.respond = false;
      await handOn.respond(req, res);
    }
  });
  return {
    entry: {
      respond: koa.callback(),
      refusesBody: request => admitHandedOn(request, proof),
      handleUpgrade(request, socket, head) {
        handOnUpgrade(leader, handOn, request, socket, head);
        return true;
      },
    },
    drain() {
      isDraining = true;
    },
    hinder(reason) {
      hindrance = reason;
      reads.hinder(reason !== undefined);
    },
    noteReadable: reads.noteReadable,
    endReads: reads.close,
    async close() {
      await reads.close();
      handOn.close();
      orderedBlobs.close();
    },
  };
}

/** Two replicas may disagree for a moment. Without this response, they would send the request to each other. */
function notLeading(): Fault {
  return new Fault('unavailable', 'This replica does not lead: try again in a moment', {
    phase: 'request',
    retryAfterSeconds: 1,
    headers: { [handedOnHeaders.proof]: 'follows' },
  });
}

// Shorter than the usual patience of a balancer.
const limitMs = 2000;
const ready: WholeResponse = { status: 200, body: JSON.stringify({ status: 'ready' }) };

/**
 * Creates the check of a replica that does not lead. It is ready when the leader is. While one leader ends and the next one
 * begins, requests wait, and the replica stays ready for as long: a balancer that takes out all replicas refuses
 * requests.
 */
export function createFollowerReadiness(
  { ask }: Pick<HandOn, 'ask'>,
  now = () => performance.now(),
): (request: IncomingMessage) => Promise<WholeResponse> {
  let respondedAt = Number.NEGATIVE_INFINITY;
  return async request => {
    const response = await ask(request, limitMs);
    if (response) {
      respondedAt = now();
      return response;
    }
    if (now() - respondedAt < usualPatienceMs) return ready;
    throw new Fault(
      'unavailable',
      'No server of this site leads, or the leader does not answer this one: look at the logs of all servers of the site, and at its database',
    );
  };
}
