import { once } from 'node:events';
import { isIP, type LookupFunction, type Socket } from 'node:net';
import { connect as connectTls, type SecureContext, type TLSSocket } from 'node:tls';
import { Fault } from '../../foundation/fault.ts';
import { Semaphore } from '../../foundation/semaphore.ts';
import { SlabPool } from '../../storage/content/index.ts';
import { type DialOptions, dial, headBytes, WireConnection } from './connection.ts';
import { WireError } from './http1.ts';
import { type ProxyRoute, routeKey } from './proxy-route.ts';
import { connectThrough } from './proxy-tunnel.ts';

export interface WirePoolOptions {
  /** Idle connections kept for one origin (default 8) and in total (default 64). */
  perOrigin?: number;
  total?: number;
  /** Milliseconds after which an idle connection is closed (default 15,000). */
  idleMs?: number;
  /** Connections in use for one origin (default 128); further requests wait. */
  active?: number;
  slabs?: SlabPool;
}

interface Idle {
  readonly key: string;
  readonly connection: WireConnection;
  readonly timer: NodeJS.Timeout;
}

const connect = (options: DialOptions): Promise<WireConnection> =>
  options.route ? dialThrough(options, options.route) : dial(options);

/** Keeps connections after their exchange, for the next one to the same origin. */
export class WirePool {
  readonly slabs: SlabPool;
  /** All origins together, the oldest first. */
  #idle: Idle[] = [];
  /** Connections in use, by origin. */
  readonly #turns: Semaphore;
  readonly #perOrigin: number;
  readonly #total: number;
  readonly #idleMs: number;
  readonly #ids = new WeakMap<object, number>();
  #lastId = 0;

  constructor({
    perOrigin = 8,
    total = 64,
    idleMs = 15_000,
    active = 128,
    slabs,
  }: WirePoolOptions = {}) {
    this.#turns = new Semaphore({
      perKey: active,
      refusal: ({ key = '', waitMs = 0 }) => busyUpstream(key, active, waitMs),
    });
    this.slabs = slabs ?? new SlabPool();
    this.#perOrigin = perOrigin;
    this.#total = total;
    this.#idleMs = idleMs;
  }

  /** Number of idle connections. */
  get idle(): number {
    return this.#idle.length;
  }

  /**
   * Returns the idle connection that was used last, because the other side is least likely to have closed it. Connects
   * if there is none or `fresh` is set. Waits while the origin has its maximum of connections. Rejects with a `Fault`
   * (503) after `options.turnMs`, or when the signal aborts.
   */
  async take(
    options: DialOptions & { readonly turnMs: number; readonly signal?: AbortSignal | undefined },
    fresh: boolean,
  ): Promise<{ connection: WireConnection; reused: boolean }> {
    const key = this.#key(options);
    const { url, turnMs, signal } = options;
    const turn = await this.#turns.take({ key: url.origin, waitMs: turnMs, signal });
    const free = () => turn[Symbol.dispose]();
    const found = fresh ? undefined : this.#idle.findLast(idle => idle.key === key);
    if (found !== undefined) {
      this.#forget(found);
      found.connection.idle = false;
      return { connection: this.#watch(found.connection, key, free), reused: true };
    }
    try {
      return { connection: this.#watch(await connect(options), key, free), reused: false };
    } catch (error) {
      free();
      throw error;
    }
  }

  /** Closes all idle connections. */
  close(): void {
    for (const idle of [...this.#idle]) this.#evict(idle);
  }

  #watch(connection: WireConnection, key: string, free: () => void): WireConnection {
    connection.onFree = reusable => {
      free();
      if (reusable) this.#keep(connection, key);
    };
    // The connection may have died since it was opened.
    if (connection.dead) free();
    return connection;
  }

  #keep(connection: WireConnection, key: string): void {
    const timer = setTimeout(() => this.#evict(idle), this.#idleMs).unref();
    const idle: Idle = { key, connection, timer };
    connection.idle = true;
    connection.onFree = () => this.#forget(idle);
    this.#idle.push(idle);
    const same = this.#idle.filter(other => other.key === key);
    const [first = idle] = same.length > this.#perOrigin ? same : this.#idle;
    if (same.length > this.#perOrigin || this.#idle.length > this.#total) this.#evict(first);
  }

  #forget(idle: Idle): void {
    clearTimeout(idle.timer);
    this.#idle = this.#idle.filter(other => other !== idle);
  }

  #evict(idle: Idle): void {
    this.#forget(idle);
    idle.connection.kill(new WireError('aborted', 'closed while idle'));
  }

  /** Requests share connections only if they have the same trust: origin, roots, lookup and proxy. */
  #key({ url, trust, lookup, route }: DialOptions): string {
    return [url.origin, this.#idOf(lookup), this.#idOf(trust), routeKey(route)].join(' ');
  }

  #idOf(trust: LookupFunction | SecureContext | undefined): number {
    if (trust === undefined) return 0;
    const known = this.#ids.get(trust) ?? ++this.#lastId;
    this.#ids.set(trust, known);
    return known;
  }
}

const retryAfterSeconds = 5;

function busyUpstream(name: string, limit: number, waitMs: number): Fault {
  return new Fault(
    'unavailable',
    `${limit} transfers from ${name} are in progress, and none finished within ${waitMs} ms: try again, or ask the operator to raise upstream.connections`,
    { phase: 'upstream', retryAfterSeconds },
  );
}

/**
 * Connects through a proxy. Bytes are copied once more than on a direct connection: node:net reads into a caller's
 * buffers only on sockets that it creates itself. Rejects with a `Fault` for the proxy, with {@link WireError} `tls`
 * for the target.
 */
async function dialThrough(options: DialOptions, route: ProxyRoute): Promise<WireConnection> {
  const raw = await connectThrough(route, options.connectMs);
  const { url } = options;
  const socket = url.protocol === 'https:' ? await secured(raw, options) : raw;
  const connection = new WireConnection(socket, Buffer.allocUnsafeSlow(headBytes));
  socket.on('data', bytes => {
    if (!feed(connection, bytes)) socket.pause();
  });
  socket.on('end', () => connection.ended());
  const broke = (cause?: unknown) =>
    connection.kill(new WireError('reset', `${url.host}: the connection broke`, { cause }));
  socket.on('error', broke).on('close', () => broke());
  return connection;
}

/** Delivers bytes as if they had been read into the connection's buffers; returns whether to continue reading. */
function feed(connection: WireConnection, bytes: Buffer): boolean {
  let more = true;
  for (let at = 0; at < bytes.length; ) {
    const room = connection.buffer();
    const part = bytes.subarray(at, at + room.length);
    room.set(part);
    more = connection.take(part.length);
    if (connection.dead) return false;
    at += part.length;
  }
  return more;
}

async function secured(raw: Socket, { url, trust, connectMs }: DialOptions): Promise<TLSSocket> {
  const host = url.hostname.replace(/^\[|\]$/g, '');
  const socket = connectTls({
    socket: raw,
    host,
    servername: isIP(host) === 0 ? host : '',
    ALPNProtocols: ['http/1.1'],
    ...(trust === undefined ? {} : { secureContext: trust }),
  });
  const onClose = () => socket.destroy(new Error('closed while connecting'));
  const stop = setTimeout(() => socket.destroy(new Error('no TLS in time')), connectMs);
  raw.once('close', onClose);
  try {
    await once(socket, 'secureConnect');
    return socket;
  } catch (cause) {
    socket.destroy();
    raw.destroy();
    const why = cause instanceof Error ? cause.message : '';
    throw new WireError('tls', `${url.host}: no secure connection: ${why}`, { cause });
  } finally {
    clearTimeout(stop);
    raw.off('close', onClose);
  }
}
