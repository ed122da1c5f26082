import {
  type OutgoingHttpHeader,
  type OutgoingHttpHeaders,
  type ServerResponse,
  STATUS_CODES,
} from 'node:http';
import { TLSSocket } from 'node:tls';
import type { Middleware } from 'koa';
import { Fault } from '../../foundation/fault.ts';
import { securityHeaders, securityHeadersOverTls } from '../../foundation/responses.ts';
import type { Tally } from '../../foundation/telemetry/counted.ts';
import { createRequestIds, type Logger, withoutToken } from '../../foundation/telemetry/index.ts';
import { inAliases } from '../aliases.ts';
import { dropBody } from '../bodies/read-body.ts';
import { foreignIds } from '../callers/foreign-ids.ts';
import { handedOnHeaders } from '../callers/handed-on.ts';
import { callerAddress, networkOf } from '../client-address.ts';
import { apiVersionHeader } from '../registry/registry-responses.ts';
import { type RequestState, stateOf, type Who } from '../request-state.ts';
import { pathOfTarget } from '../request-target.ts';
import { apiErrorBody, faultHeaders, faultOf, registryErrorBody } from './fault-of.ts';

/** Counts and times of finished requests. */
export type Observe = (method: string, route: string, status: number, seconds: number) => void;

export interface OutermostDeps {
  readonly log: Logger;
  readonly observe: Observe;
  readonly trustedProxies: number;
  readonly publicUrl: URL;
  readonly tally: Tally;
}

/**
 * The outermost step: gives the request its id and its path, turns any error into a response in the
 * dialect of the path, and writes one log line when the response has closed.
 */
export function outermost(deps: OutermostDeps): Middleware<RequestState> {
  const { log, observe } = deps;
  const createRequestId = createRequestIds();
  const { protocol, hostname } = deps.publicUrl;
  // Other servers of this machine have the same name.
  const requiresTls = protocol === 'https:' && hostname !== 'localhost';
  return async (ctx, next) => {
    const { req, res } = ctx;
    ctx.state = stateOf(req);
    const began = performance.now();
    const requestId = createRequestId();
    // A closed socket has no address.
    const client = callerAddress(req, deps.trustedProxies);
    addUsualHeaders(res, requestId, requiresTls);
    const target = pathOfTarget(req.url ?? '');
    // All code below parses the URL again, which throws if it is not a path.
    req.url = target ?? '/';
    const { path } = ctx;
    // A write after the end emits `error`. Without a listener, that event ends the process.
    res.on('error', err => log.debug({ requestId, err }, 'response'));
    let fault: Fault | undefined;
    res.once('close', () => {
      const ms = Math.round((performance.now() - began) * 10) / 10;
      const isWhole = res.writableFinished;
      observe(
        req.method ?? '',
        target === undefined ? 'other' : routeOf(path, ctx.state),
        res.statusCode,
        ms / 1000,
      );
      const line = {
        requestId,
        ...foreignIds(req.headers, deps.trustedProxies),
        method: req.method,
        // The token is a secret: it gives access.
        path: target === undefined ? '-' : withoutToken(path),
        status: res.statusCode,
        ms,
        client,
        ...ctx.state.who,
        ...(ctx.state.token === undefined ? {} : { tokenLabel: ctx.state.token }),
        ...(isWhole ? {} : { aborted: true }),
        ...(fault ? { err: fault } : {}),
      };
      const isFailure = fault && statusOf(fault, path) >= 500;
      // Another replica sends the request to the next leader.
      const isSentAgain = fault?.headers?.[handedOnHeaders.proof] !== undefined;
      // A server that is not ready is a state: each probe reports it again.
      if (isFailure && !isSentAgain && path !== '/readyz') log.error(line, 'request');
      else log.info(line, 'request');
    });
    try {
      if (target === undefined) throw notPath();
      await next();
    } catch (error) {
      ctx.respond = false;
      // The client disconnected. This is not a failure, and it is already logged.
      if (res.closed) return;
      fault = faultOf(error, requestId);
      noteRefusal(deps.tally, fault, statusOf(fault, path), {
        ...ctx.state.who,
        address: client,
      });
      if (ctx.state.usesAliases) fault = inNamesOfClient(fault);
      if (fault.kind === 'internal') log.error({ requestId, err: error }, 'unexpected error');
      if (res.headersSent) {
        // Too late for an error response. An aborted transfer must not look complete.
        res.destroy();
        return;
      }
      const isRegistry = isRegistryPath(path);
      const shown = isRegistry ? undefined : ctx.state.showFault?.(fault, requestId);
      const json = isRegistry
        ? registryErrorBody(fault, requestId)
        : apiErrorBody(fault, requestId);
      const body = Buffer.from(shown?.body ?? JSON.stringify(json));
      const isReadWhole = await dropBody(req);
      if (res.closed) return;
      // After a failed HEAD, some clients show only the reason phrase.
      if (isRegistry) res.statusMessage = reasonPhrase(fault);
      res.writeHead(statusOf(fault, path), {
        ...(isReadWhole ? {} : { connection: 'close' }),
        ...(isRegistry ? apiVersionHeader : {}),
        ...headersOf(fault, shown !== undefined),
        'content-type': 'application/json',
        ...shown?.headers,
        'content-length': String(body.length),
      });
      res.end(req.method === 'HEAD' ? undefined : body);
    }
  };
}

/** A browser that gets a challenge shows its own dialog in place of the page. */
function headersOf(fault: Fault, isPage: boolean): Record<string, string> {
  const { 'www-authenticate': challenge, ...headers } = faultHeaders(fault);
  return isPage || challenge === undefined
    ? headers
    : { ...headers, 'www-authenticate': challenge };
}

function inNamesOfClient(fault: Fault): Fault {
  const message = inAliases(fault.message);
  return message === fault.message ? fault : fault.withMessage(message);
}

function isRegistryPath(path: string): boolean {
  return path === '/v2' || path.startsWith('/v2/');
}

/** Returns the status in the dialect of the path. */
function statusOf({ status, apiStatus }: Fault, path: string): number {
  return isRegistryPath(path) ? status : apiStatus;
}

function notPath(): Fault {
  return new Fault(
    'bad-request',
    'The request target is not a path on this server: send /path or /path?query',
    { phase: 'request' },
  );
}

/** Returns the route as a label for metrics. Variable parts are cut out to keep the number of labels small. */
export function routeOf(path: string, { route = 'other' }: RequestState): string {
  if (!path.startsWith('/v2')) return route;
  const registry = /\/(manifests|blobs|tags|referrers)\/[^/]*$/.exec(path);
  return registry ? `/v2/.../${registry[1]}` : '/v2/';
}

// The buffers of proxies for a whole response head have 4 KiB or more.
const mostCharacters = 512;

/**
 * Returns the reason phrase for a fault: its headline as one line of printable ASCII, at most 512 characters.
 * Source: RFC 9112, section 4.
 */
export function reasonPhrase({ headline, status }: Pick<Fault, 'headline' | 'status'>): string {
  // Cut first: the message of a failed build may be long.
  const line = withoutToken(headline.slice(0, 2 * mostCharacters))
    .replace(/\s+/g, ' ')
    .replace(/[^ -~]/g, '?')
    .trim();
  if (line === '') return STATUS_CODES[status] ?? '';
  return line.length > mostCharacters ? `${line.slice(0, mostCharacters - 3)}...` : line;
}

type Headers = OutgoingHttpHeaders | OutgoingHttpHeader[];

/**
 * Gives a response the headers of every response, where its route sets none of the same name. They are added when the
 * head is written: Node writes headers from one object a third faster than those that were set one by one.
 *
 * @param requiresTls browsers that get a response over TLS use only https for this host afterwards. Source: RFC 6797
 */
function addUsualHeaders(response: ServerResponse, requestId: string, requiresTls: boolean): void {
  const security =
    requiresTls && response.socket instanceof TLSSocket ? securityHeadersOverTls : securityHeaders;
  const usual: Readonly<Record<string, string>> = { 'x-request-id': requestId, ...security };
  const { writeHead } = response;
  response.writeHead = (
    status: number,
    ...rest: readonly (string | Headers | undefined)[]
  ): ServerResponse => {
    const [headers] = rest;
    const isOnly = typeof headers === 'object' && !Array.isArray(headers);
    if (isOnly && response.getHeaderNames().length === 0) {
      return writeHead.call(response, status, { ...usual, ...headers });
    }
    for (const [name, value] of Object.entries(usual)) {
      if (!response.hasHeader(name)) response.setHeader(name, value);
    }
    return Reflect.apply(writeHead, response, [status, ...rest]);
  };
}

const refusals = new Set([429, 503, 507]);

/** Counts a request that a limit refused, and the caller. Nothing for other failures. */
function noteRefusal(
  tally: Tally,
  fault: Pick<Fault, 'limit' | 'kind' | 'phase'>,
  status: number,
  { user, account, address }: Who & { readonly address: string },
): void {
  if (!refusals.has(status)) return;
  tally.add('limits', { limit: limitOf(fault, status) });
  tally.add('refused callers', { caller: callerName(user, account, address) });
}

function limitOf(
  { limit, kind, phase }: Pick<Fault, 'limit' | 'kind' | 'phase'>,
  status: number,
): string {
  if (limit !== undefined) return limit;
  if (kind === 'storage-full') return 'free space on the disk';
  if (phase === 'upstream' && status === 429) return 'rate limit of another registry';
  return `no limit: ${status}${phase === undefined ? '' : ` (${phase})`}`;
}

function callerName(
  user: string | undefined,
  account: string | undefined,
  address: string,
): string {
  if (account !== undefined) return `account ${account}`;
  return user === undefined ? networkOf(address) : `user ${user}`;
}
