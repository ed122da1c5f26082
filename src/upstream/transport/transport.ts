import type { LookupFunction } from 'node:net';
import { createSecureContext, getCACertificates, type SecureContext } from 'node:tls';
import { Agent, buildConnector, type Dispatcher, request } from 'undici';
import { boundedCache } from '../../foundation/bounded-cache.ts';
import { pauseTurn } from '../../foundation/pause-turn.ts';
import type { ByteSource } from '../../storage/content/byte-source.ts';
import type { SlabPool } from '../../storage/content/index.ts';
import { traced, traceHeaders } from '../../tracing/traces.ts';
import { privateHostsOf, type Registries, settingsOf } from '../registry-settings.ts';
import type { WireUpload } from '../wire/connection.ts';
import { WirePool } from '../wire/pool.ts';
import type { ProxyRoute } from '../wire/proxy-route.ts';
import { connectThrough, refused } from '../wire/proxy-tunnel.ts';
import { openWire } from '../wire/wire.ts';
import {
  checkAddress,
  checkName,
  guardedLookup,
  lookupIn,
  type PrivateHosts,
  publicAddressOf,
} from './address-guard.ts';
import type { Names } from './names.ts';
import type { ProxyFor } from './proxy.ts';
import { createRouteTo, type ProxyRouteTo } from './proxy-choice.ts';
import { sourceOfStream, type UpstreamResponse } from './upstream-response.ts';

export interface Timeouts {
  readonly connectMs: number;
  /** Timeout for the first response byte (ms). */
  readonly headersMs: number;
  /** Timeout between two bytes of the body (ms). */
  readonly idleMs: number;
}

export interface TransportLimits {
  /** Buffers for blobs. Default: its own pool. */
  readonly slabs?: SlabPool;
  /** Simultaneous connections to one origin for blobs, and as many for documents. Further requests wait. */
  readonly connections?: number;
  /** Selects the proxy for an address. Default: none. */
  readonly proxyFor?: ProxyFor;
  /** True when proxies look up the names of hosts. */
  readonly proxyNames?: boolean;
  /** Looks names up for documents. Default: shared by all connections, which wait for each other's new names. */
  readonly names?: Names;
}

type Forwarded = Omit<Dispatcher.RequestOptions, 'origin' | 'path' | 'headers'> & {
  readonly url: URL;
  readonly headers: Readonly<Record<string, string>>;
};

/** One request to one address. Redirects are not followed here. */
export interface HttpRequest {
  readonly url: URL;
  /**
   * The server that named the address: in a redirect (the first of several), as a token service or as the place of an
   * upload. Absent for an address of Sluice itself. A listed host is exempt from the address guard only for itself and
   * for listed servers: another server must not send Sluice to its private paths.
   */
  readonly from?: URL | undefined;
  readonly method: 'GET' | 'HEAD' | 'POST' | 'PUT' | 'DELETE';
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string | Buffer | undefined;
  /** The bytes of a PUT for {@link Transport.sendBlob}, which frees them however it ends. */
  readonly upload?: WireUpload | undefined;
  /** Timeout for the first response byte, where that takes longer than usual (ms). */
  readonly headersMs?: number | undefined;
  readonly signal?: AbortSignal | undefined;
}

export interface Transport {
  /** Rejects with a `Fault` when the request leads to a closed address; resolves for a name without an address. */
  checkReach(httpRequest: Pick<HttpRequest, 'url' | 'from'>): Promise<void>;
  /** For documents: small bodies, pooled connections. */
  send(httpRequest: HttpRequest): Promise<UpstreamResponse>;
  /** For blobs: GET, and PUT of an upload. The fastest path for bytes. */
  sendBlob(httpRequest: HttpRequest): Promise<UpstreamResponse>;
  close(): Promise<void>;
}

// Compressed bodies would not match the sizes and digests that the registry specifies.
const commonHeaders = { 'accept-encoding': 'identity', 'user-agent': 'sluice' };

/** What a request may reach without the address guard, and its route. */
interface Reach {
  readonly isAllowed: PrivateHosts;
  readonly routeTo: ProxyRouteTo;
}

// More than a registry writes into an error or a redirect; a larger body costs the connection.
const drainedBytes = 64 * 1024;
// How long a check of a name's addresses stays valid.
const reachMs = 30_000;

/**
 * Sends all outgoing requests: every connection passes the address guard. Errors are those of the socket or of undici;
 * callers that know the purpose of the request turn them into faults.
 */
export function createTransport(
  registries: Registries,
  timeouts: Timeouts,
  privateHosts: readonly string[] = [],
  {
    slabs,
    connections: maxConnections,
    proxyFor = () => undefined,
    proxyNames = false,
    names,
  }: TransportLimits = {},
): Transport {
  const listed = privateHostsOf(registries);
  const reachWith = (isAllowed: PrivateHosts): Reach => ({
    isAllowed,
    routeTo: createRouteTo(proxyFor, isAllowed, proxyNames, url => publicAddressOf(url, names)),
  });
  const isPrivate = (host: string) =>
    privateHosts.includes(host) || privateHosts.includes(host.replace(/:\d+$/, ''));
  const ownReach = reachWith(host => listed(host) || isPrivate(host));
  // Layer URLs may name the private hosts themselves, with any path.
  const foreignReach = reachWith(isPrivate);
  // Docker Hub is listed by a name that is not the host of its API.
  const isListed = (host: string) =>
    ownReach.isAllowed(host) || settingsOf(registries, host).allowPrivateAddress;
  const reachOf = ({ url, from }: Pick<HttpRequest, 'url' | 'from'>): Reach =>
    from === undefined || from.origin === url.origin || isListed(from.host)
      ? ownReach
      : foreignReach;
  const agents = new Map<string, Agent>();

  // One function for each host: requests share kept connections only if they use the same function.
  const lookups = boundedCache<string, LookupFunction>(1000);
  const lookupFor = (host: string): LookupFunction => {
    const lookup = lookups.get(host) ?? guardedLookup(host);
    lookups.set(host, lookup);
    return lookup;
  };

  // Parsing all common roots takes milliseconds, so it happens once for each authority in the settings.
  const trusts = new Map<string, SecureContext>();
  const trustIn = (host: string): SecureContext => {
    const { ca = '' } = settingsOf(registries, host);
    const trust = trusts.get(ca) ?? createSecureContext(ca === '' ? {} : { ca: withUsual(ca) });
    trusts.set(ca, trust);
    return trust;
  };

  const poolOptions = {
    ...(slabs ? { slabs } : {}),
    ...(maxConnections ? { active: maxConnections } : {}),
  };
  const connections = new WirePool(poolOptions);
  // What is sent to a registry may come from the same one: a transfer that waits for the turn of its upload must not hold
  // the turn of another's.
  const uploads = new WirePool(poolOptions);
  const agent = (key: string, connect: () => buildConnector.connector): Agent => {
    let agent = agents.get(key);
    if (!agent) {
      agent = new Agent({
        connect: connect(),
        headersTimeout: timeouts.headersMs,
        bodyTimeout: timeouts.idleMs,
        keepAliveTimeout: 15_000,
        connections: maxConnections ?? null,
      });
      agents.set(key, agent);
    }
    return agent;
  };
  const agentFor = (host: string, { isAllowed, routeTo }: Reach): Agent => {
    const { ca } = settingsOf(registries, host);
    return agent(`${isAllowed(host) ? host : '*'} ${ca ?? ''}`, () => {
      const direct = guardedConnector(isAllowed(host), timeouts.connectMs, trustIn(host), names);
      return proxiedConnector(routeTo, direct, timeouts.connectMs, trustIn(host));
    });
  };
  /** Sends a plain http request through a forwarding proxy. */
  const forward = async ({ url, ...options }: Forwarded, { proxy }: ProxyRoute) => {
    const { connectMs } = timeouts;
    const connect = () => buildConnector({ timeout: connectMs, allowH2: false });
    const response = await agent(`proxy ${proxy.url.origin}`, connect).request({
      ...options,
      origin: proxy.url.origin,
      path: `${url.origin}${url.pathname}${url.search}`,
      headers: {
        ...options.headers,
        host: url.host,
        ...(proxy.authorization ? { 'proxy-authorization': proxy.authorization } : {}),
      },
    });
    if (response.statusCode !== 407) return response;
    await response.body.dump();
    throw refused(proxy, 407, url.host);
  };

  const checks = boundedCache<string, { readonly until: number; readonly done: Promise<void> }>(
    1000,
  );

  const sendNow: Transport['send'] = async httpRequest => {
    const { url, method, headers, body, signal, headersMs } = httpRequest;
    const reach = reachOf(httpRequest);
    checkAddress(url, reach.isAllowed);
    // The first agent loads the client.
    if (agents.size === 0) await pauseTurn();
    const options = {
      method,
      headers: { ...commonHeaders, ...headers },
      // By default, undici closes the connection after each HEAD, because some servers send a body.
      reset: false,
      ...(body === undefined ? {} : { body }),
      ...(headersMs === undefined ? {} : { headersTimeout: headersMs }),
      ...(signal ? { signal } : {}),
    };
    const route = await reach.routeTo(url);
    const response =
      route?.kind === 'forward'
        ? await forward({ ...options, url }, route)
        : await request(url, { ...options, dispatcher: agentFor(url.host, reach) });
    return {
      status: response.statusCode,
      headers: flatten(response.headers),
      contentLength: parseLength(response.headers['content-length']),
      body: sourceOfBody(response.body),
    };
  };

  const sendBlobNow: Transport['sendBlob'] = async httpRequest => {
    const { url, headers, upload, headersMs, signal } = httpRequest;
    const { isAllowed, routeTo } = reachOf(httpRequest);
    checkAddress(url, isAllowed);
    const route = await routeTo(url);
    const response = await openWire(
      {
        url,
        upload,
        headers: { ...commonHeaders, ...headers },
        timeouts: headersMs === undefined ? timeouts : { ...timeouts, headersMs },
        trust: url.protocol === 'https:' ? trustIn(url.host) : undefined,
        route,
        ...(isAllowed(url.host) || route ? {} : { lookup: lookupFor(url.host) }),
        ...(signal ? { signal } : {}),
      },
      upload ? uploads : connections,
    );
    if (response.status !== 407 || route?.kind !== 'forward') return response;
    response.body.destroy();
    throw refused(route.proxy, 407, url.host);
  };

  return {
    async checkReach(httpRequest) {
      const { url } = httpRequest;
      const { isAllowed } = reachOf(httpRequest);
      checkAddress(url, isAllowed);
      if (isAllowed(url.host)) return;
      const known = checks.get(url.host);
      const now = performance.now();
      if (known && known.until > now) return known.done;
      const done = checkName(url);
      checks.set(url.host, { until: now + reachMs, done });
      return done;
    },

    send: httpRequest => asSpan(httpRequest, sendNow),
    sendBlob: httpRequest =>
      asSpan(httpRequest, sendBlobNow).finally(() => httpRequest.upload?.source.destroy()),

    async close() {
      connections.close();
      uploads.close();
      await Promise.all([...agents.values()].map(agent => agent.destroy()));
    },
  };
}

/** Records a request as a span. Its path stays out: that of a layer may be a secret. */
function asSpan(
  httpRequest: HttpRequest,
  send: (httpRequest: HttpRequest) => Promise<UpstreamResponse>,
): Promise<UpstreamResponse> {
  const { method, url } = httpRequest;
  const attributes = { 'http.request.method': method, 'server.address': url.host };
  return traced(`${method} ${url.host}`, { kind: 'client', attributes }, async span => {
    const response = await send({
      ...httpRequest,
      headers: { ...httpRequest.headers, ...traceHeaders() },
    });
    span.set({ 'http.response.status_code': response.status });
    return response;
  });
}

function guardedConnector(
  isAllowed: boolean,
  timeout: number,
  secureContext: SecureContext,
  names: Names | undefined,
) {
  const trust = { secureContext };
  if (isAllowed) {
    return buildConnector({ timeout, ...trust, ...(names ? { lookup: lookupIn(names) } : {}) });
  }
  return ((options, callback) =>
    buildConnector({
      timeout,
      ...trust,
      lookup: guardedLookup(options.host ?? options.hostname, names),
    })(options, callback)) satisfies buildConnector.connector;
}

/** Connects through the host's proxy, if it has one. */
function proxiedConnector(
  routeTo: ProxyRouteTo,
  direct: buildConnector.connector,
  timeout: number,
  secureContext: SecureContext,
): buildConnector.connector {
  const secure = buildConnector({ timeout, secureContext });
  const open = async (options: buildConnector.Options, callback: buildConnector.Callback) => {
    const route = await routeTo(
      new URL(`${options.protocol}//${options.host ?? options.hostname}`),
    );
    if (route === undefined) return direct(options, callback);
    const socket = await connectThrough(route, timeout);
    if (options.protocol === 'https:') return secure({ ...options, httpSocket: socket }, callback);
    callback(null, socket);
  };
  return ((options, callback) => {
    open(options, callback).catch(error => callback(error, null));
  }) satisfies buildConnector.connector;
}

/** Drains a small body that was never read, so that its connection can be used again. */
function sourceOfBody(body: Dispatcher.ResponseData['body']): ByteSource {
  const source = sourceOfStream(body);
  let isRead = false;
  return {
    read() {
      isRead = true;
      return source.read();
    },
    destroy(reason) {
      // A reader that stopped early still listens to the stream. The stream would not flow, and keep its connection.
      if (isRead) source.destroy(reason);
      else body.dump({ limit: drainedBytes }).catch(() => {});
    },
  };
}

/** Adds a registry's own authority to the usual ones. */
function withUsual(ca: string): string {
  return [...getCACertificates('default'), ca].join('\n');
}

function flatten(headers: Record<string, string | string[] | undefined>): Map<string, string> {
  const flat = new Map<string, string>();
  for (const [name, value] of Object.entries(headers)) {
    if (value !== undefined) flat.set(name, Array.isArray(value) ? value.join(', ') : value);
  }
  return flat;
}

function parseLength(value: string | string[] | undefined): number | undefined {
  return typeof value === 'string' && /^\d+$/.test(value) ? Number(value) : undefined;
}
