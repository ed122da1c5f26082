import type { LookupFunction } from 'node:net';
import type { Readable } from 'node:stream';
import { createSecureContext, getCACertificates, type SecureContext } from 'node:tls';
import { Agent, buildConnector, request } from 'undici';
import { boundedCache } from '../bounded-cache.ts';
import type { SlabPool } from '../content/buffers.ts';
import { checkAddress, checkName, guardedLookup } from './address-guard.ts';
import { type Answer, sourceOfStream } from './answer.ts';
import { privateHostsOf, type Registries, settingsOf } from './registry-settings.ts';
import { openWire } from './wire.ts';
import { WirePool } from './wire-pool.ts';

export interface Timeouts {
  readonly connectMs: number;
  /** Until the first byte of the response. */
  readonly headersMs: number;
  /** Between two bytes of the body. */
  readonly idleMs: number;
}

export interface TransportLimits {
  /** Buffers for blobs. Default: its own pool. */
  readonly slabs?: SlabPool;
  /** Simultaneous connections to one origin for blobs, and as many for documents; a request beyond them waits. */
  readonly connections?: number;
}

/** One request to one address; redirects are not followed here. */
export interface Hop {
  readonly url: URL;
  readonly method: 'GET' | 'HEAD' | 'POST' | 'PUT' | 'DELETE';
  readonly headers: Readonly<Record<string, string>>;
  /** A stream needs a `content-length` among the headers. */
  readonly body?: string | Buffer | Readable | undefined;
  /** Until the first byte of the response, where that takes longer than usual. */
  readonly headersMs?: number | undefined;
  readonly signal?: AbortSignal | undefined;
}

export interface Transport {
  /** Rejects with a `Fault` when the URL leads to a closed address; resolves for a name that has no address. */
  checkReach(url: URL): Promise<void>;
  /** For documents: small bodies, pooled connections. */
  send(hop: Hop): Promise<Answer>;
  /** For blobs: GET only, the fastest road for bytes. */
  sendBlob(hop: Hop): Promise<Answer>;
  close(): Promise<void>;
}

// Compressed bodies would have other sizes and digests than what the registry promises.
const commonHeaders = { 'accept-encoding': 'identity', 'user-agent': 'sluice' };

// More than a registry writes into an error or a redirect; what is larger costs the connection.
const drainedBytes = 64 * 1024;
// How long the addresses of a name are assumed to be the same.
const reachMs = 30_000;

/**
 * The only way out: every connection passes the address guard, whatever it is for. Errors are those
 * of the socket or of undici; callers turn them into faults where they know what was asked for.
 */
export function createTransport(
  registries: Registries,
  timeouts: Timeouts,
  privateHosts: readonly string[] = [],
  { slabs, connections: maxConnections }: TransportLimits = {},
): Transport {
  const listed = privateHostsOf(registries);
  const isAllowed = (host: string) => listed(host) || privateHosts.includes(host);
  const agents = new Map<string, Agent>();

  // One function for one host: kept connections are shared by requests with the same function.
  const lookups = boundedCache<string, LookupFunction>(1000);
  const lookupFor = (host: string): LookupFunction => {
    const lookup = lookups.get(host) ?? guardedLookup(host);
    lookups.set(host, lookup);
    return lookup;
  };

  // Reading all common roots takes milliseconds: done once for each authority in the settings.
  const trusts = new Map<string, SecureContext>();
  const trustIn = (host: string): SecureContext => {
    const { ca = '' } = settingsOf(registries, host);
    const trust = trusts.get(ca) ?? createSecureContext(ca === '' ? {} : { ca: withUsual(ca) });
    trusts.set(ca, trust);
    return trust;
  };

  const connections = new WirePool({
    ...(slabs ? { slabs } : {}),
    ...(maxConnections ? { active: maxConnections } : {}),
  });
  const agentFor = (host: string): Agent => {
    const { ca } = settingsOf(registries, host);
    const key = `${isAllowed(host) ? host : '*'} ${ca ?? ''}`;
    let agent = agents.get(key);
    if (!agent) {
      agent = new Agent({
        connect: guardedConnector(isAllowed(host), timeouts.connectMs, trustIn(host)),
        headersTimeout: timeouts.headersMs,
        bodyTimeout: timeouts.idleMs,
        keepAliveTimeout: 15_000,
        connections: maxConnections ?? null,
      });
      agents.set(key, agent);
    }
    return agent;
  };

  const checks = boundedCache<string, { readonly until: number; readonly done: Promise<void> }>(
    1000,
  );

  return {
    async checkReach(url) {
      checkAddress(url, isAllowed);
      if (isAllowed(url.host)) return;
      const known = checks.get(url.host);
      const now = performance.now();
      if (known && known.until > now) return known.done;
      const done = checkName(url);
      checks.set(url.host, { until: now + reachMs, done });
      return done;
    },

    async send({ url, method, headers, body, signal, headersMs }) {
      checkAddress(url, isAllowed);
      const answer = await request(url, {
        method,
        headers: { ...commonHeaders, ...headers },
        dispatcher: agentFor(url.host),
        // undici would close the connection after each HEAD, for servers that answer it with a body.
        reset: false,
        ...(body === undefined ? {} : { body }),
        ...(headersMs === undefined ? {} : { headersTimeout: headersMs }),
        ...(signal ? { signal } : {}),
      });
      return {
        status: answer.statusCode,
        headers: flatten(answer.headers),
        contentLength: parseLength(answer.headers['content-length']),
        body: {
          ...sourceOfStream(answer.body),
          // What is left of a small body is read, so that the connection can be used again.
          destroy: () => void answer.body.dump({ limit: drainedBytes }).catch(() => {}),
        },
      };
    },

    async sendBlob({ url, headers, signal }) {
      checkAddress(url, isAllowed);
      return openWire(
        {
          url,
          headers: { ...commonHeaders, ...headers },
          timeouts,
          trust: url.protocol === 'https:' ? trustIn(url.host) : undefined,
          ...(isAllowed(url.host) ? {} : { lookup: lookupFor(url.host) }),
          ...(signal ? { signal } : {}),
        },
        connections,
      );
    },

    async close() {
      connections.close();
      await Promise.all([...agents.values()].map(agent => agent.destroy()));
    },
  };
}

function guardedConnector(isAllowed: boolean, timeout: number, secureContext: SecureContext) {
  const trust = { secureContext };
  if (isAllowed) return buildConnector({ timeout, ...trust });
  return ((options, callback) =>
    buildConnector({ timeout, ...trust, lookup: guardedLookup(options.host ?? options.hostname) })(
      options,
      callback,
    )) satisfies buildConnector.connector;
}

/** A registry's own authority is trusted besides the usual ones, not in their place. */
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
