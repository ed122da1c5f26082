import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { endWith, rawResponse } from '../../foundation/responses.ts';
import type { Logger } from '../../foundation/telemetry/index.ts';
import { networkOf } from '../client-address.ts';

export interface ConnectionLimits {
  /** Maximum number of open connections. */
  readonly total: number;
  /** Maximum number from one address (in IPv6: from one /64); undefined where proxies hold the connections. */
  readonly perAddress: number | undefined;
}

/** One connection of a client. */
interface Connection {
  /** The stream that carries requests: with TLS, the decrypted one. */
  socket: Socket;
  /** The latest request and its response, which finishes last. */
  request: IncomingMessage | undefined;
  response: ServerResponse | undefined;
}

/** All connections of the server. Limits their number, and knows which of them can end at once. */
export interface Connections {
  /** Refuses connections beyond the limits, and tracks the requests on the others. */
  guard(server: Server): void;
  /** Returns the open connections, oldest first. */
  list(): Iterable<Connection>;
  /** Returns true while a request on the connection is not answered. */
  isResponding(socket: Socket): boolean;
  /** Ends each connection after its next response, so that clients send later requests elsewhere. */
  drain(): void;
  /**
   * Calls `close`, which stops the servers from listening, at a moment when no client waits to be accepted: they would be
   * cut off. Clients that come shortly before are served after it.
   */
  closeBetween(close: () => void): Promise<void>;
  /**
   * Ends connections without a running request (idle, silent or half-sent), and the others after their response. New ones
   * have a second for their request. Resolves when none of them is left.
   */
  finish(): Promise<void>;
  /** Ends all connections at once. */
  destroy(): void;
  /** Calls the listener for each refused connection from now on, with the name of the limit and the network. */
  onRefused(listener: RefusedListener): void;
}

export type RefusedListener = (limit: string, network: string) => void;

interface Tracked extends Connection {
  readonly raw: Socket;
  readonly network: string;
  /** When it was accepted (ms). */
  readonly since: number;
  isReleased: boolean;
}

// Maximum number of refusals in progress. Beyond it, a refused connection ends without a response.
const mostFarewells = 50;
const reportMs = 60_000;
// A client sends its request as soon as it is connected.
const firstRequestMs = 1000;
const acceptMs = 1000;
const shortTurnMs = 1;

export function createConnections(
  { total, perAddress = Number.POSITIVE_INFINITY }: ConnectionLimits,
  log: Logger,
): Connections {
  const open = new Set<Tracked>();
  /** Connections that never had a request, oldest first. */
  const silent = new Set<Tracked>();
  const bySocket = new WeakMap<Socket, Tracked>();
  const perNetwork = new Map<string, number>();
  const report = createReport(log);
  let refused: RefusedListener = () => {};
  let farewells = 0;
  let accepts = 0;
  /**
   * Serves the connections of the moment before the servers stop to listen. Until then, clients that wait for a
   * response do not connect again.
   */
  let held: (() => void)[] | undefined;
  let isDraining = false;
  let finished: PromiseWithResolvers<void> | undefined;

  const forget = (connection: Tracked): void => {
    if (!open.delete(connection)) return;
    silent.delete(connection);
    const left = (perNetwork.get(connection.network) ?? 0) - 1;
    if (left > 0) perNetwork.set(connection.network, left);
    else perNetwork.delete(connection.network);
    settle();
  };

  const settle = (): void => {
    if (finished && ![...open].some(({ isReleased }) => !isReleased)) finished.resolve();
  };

  const end = (connection: Tracked): void => {
    connection.raw.destroy();
    forget(connection);
  };

  const refuse = (socket: Socket, isPlain: boolean, why: 'total' | 'perAddress'): void => {
    report(why);
    refused(limitNames[why], networkOf(socket.remoteAddress ?? 'unknown'));
    if (!isPlain || farewells >= mostFarewells) return void socket.destroy();
    farewells += 1;
    socket.once('close', () => {
      farewells -= 1;
    });
    endWith(socket, rawResponse(503, tooMany[why], { 'retry-after': '5' }));
  };

  const admit = (socket: Socket, isPlain: boolean): Tracked | undefined => {
    const network = networkOf(socket.remoteAddress ?? 'unknown');
    const ofNetwork = perNetwork.get(network) ?? 0;
    if (ofNetwork >= perAddress) return void refuse(socket, isPlain, 'perAddress');
    if (open.size >= total) {
      const other = spare();
      if (!other) return void refuse(socket, isPlain, 'total');
      end(other);
    }
    const connection: Tracked = {
      raw: socket,
      socket,
      network,
      since: performance.now(),
      isReleased: false,
      request: undefined,
      response: undefined,
    };
    open.add(connection);
    silent.add(connection);
    perNetwork.set(network, (perNetwork.get(network) ?? 0) + 1);
    bySocket.set(socket, connection);
    socket.once('close', () => forget(connection));
    return connection;
  };

  /** Returns the connection to end for a new one: one that never had a request, else one that is idle. */
  const spare = (): Tracked | undefined => {
    for (const connection of silent) return connection;
    for (const connection of open) if (!isResponding(connection)) return connection;
    return undefined;
  };

  // Runs for every request, so it stores nothing that can be computed when it is needed.
  const begin = (request: IncomingMessage, response: ServerResponse): void => {
    const connection = bySocket.get(request.socket);
    if (!connection) return;
    if (!connection.response) silent.delete(connection);
    connection.request = request;
    connection.response = response;
    if (isDraining) endAfter(connection, response);
  };

  const endAfter = (connection: Tracked, response: ServerResponse): void => {
    if (!response.headersSent) response.setHeader('connection', 'close');
    response.once('close', () => {
      if (!isResponding(connection)) connection.socket.destroySoon();
    });
  };

  const endUnlessUsed = (connection: Tracked, afterMs: number): void => {
    const timer = setTimeout(() => {
      if (silent.has(connection)) end(connection);
    }, afterMs);
    connection.raw.once('close', () => clearTimeout(timer));
  };

  const drain = (): void => {
    if (isDraining) return;
    isDraining = true;
    for (const connection of open) {
      const { response, isReleased } = connection;
      if (response && !response.closed && !isReleased) endAfter(connection, response);
    }
  };

  /** Releases a connection that leaves HTTP for another protocol. */
  const release = ({ socket }: IncomingMessage): void => {
    const connection = bySocket.get(socket);
    if (!connection) return;
    connection.isReleased = true;
    silent.delete(connection);
    settle();
  };

  return {
    guard(server) {
      const isPlain = !('setSecureContext' in server);
      // The server's own listener creates a parser for every connection. It must not see refused ones.
      const accept = server.listeners('connection') as ((socket: Socket) => void)[];
      server.removeAllListeners('connection');
      /** Connections before the end of their TLS handshake, by the client's address and port. */
      const shaking = new Map<string, Tracked>();
      server.on('connection', (socket: Socket) => {
        accepts += 1;
        const connection = admit(socket, isPlain);
        if (!connection) return;
        if (!isPlain) {
          const key = peerOf(socket);
          shaking.set(key, connection);
          socket.once('close', () => {
            // A client's port may be in use again already.
            if (shaking.get(key) === connection) shaking.delete(key);
          });
        }
        const serve = () => {
          for (const listener of accept) listener.call(server, socket);
        };
        if (held) held.push(serve);
        else serve();
      });
      server.prependListener('secureConnection', (socket: Socket) => {
        const connection = shaking.get(peerOf(socket));
        if (!connection) return void socket.destroy();
        connection.socket = socket;
        bySocket.set(socket, connection);
      });
      server.on('request', begin);
      server.on('upgrade', request => {
        release(request);
        // No other listener takes the connection, as while the server starts.
        if (server.listenerCount('upgrade') === 1) request.socket.destroy();
      });
    },

    list: () => open,

    isResponding(socket) {
      const connection = bySocket.get(socket);
      return connection !== undefined && isResponding(connection);
    },

    drain,

    async closeBetween(close) {
      held = [];
      const deadline = performance.now() + acceptMs;
      let seen: number;
      let began: number;
      // Immediates run after the part of a turn that accepts. Only those of two turns have it between them.
      await nextTurn();
      // A turn accepts one connection. Others may come while it lasts.
      do {
        seen = accepts;
        began = performance.now();
        await nextTurn();
      } while (
        (accepts > seen || performance.now() - began > shortTurnMs) &&
        performance.now() < deadline
      );
      close();
      const late = held;
      held = undefined;
      for (const serve of late) serve();
    },

    finish() {
      finished ??= Promise.withResolvers();
      drain();
      const now = performance.now();
      for (const connection of open) {
        if (isResponding(connection)) continue;
        const leftMs = connection.since + firstRequestMs - now;
        if (silent.has(connection) && leftMs > 0) endUnlessUsed(connection, leftMs);
        else end(connection);
      }
      settle();
      return finished.promise;
    },

    destroy() {
      for (const connection of open) end(connection);
    },

    onRefused(listener) {
      refused = listener;
    },
  };
}

/** Returns true while a response is due on the connection, and for one that has left HTTP. */
function isResponding({ response, isReleased }: Tracked): boolean {
  return isReleased || (response !== undefined && !response.closed);
}

const limitNames = { total: 'open connections', perAddress: 'open connections from one address' };
const tooMany = {
  total: 'The server has reached its limit of connections: try again in a few seconds',
  perAddress:
    'Too many connections from your address are open: close some, or reuse them for several requests',
};

function peerOf({ remoteAddress, remotePort }: Socket): string {
  return `${remoteAddress} ${remotePort}`;
}

/** Logs the number of refused connections, at most once a minute: a flood must not fill the log. */
function createReport(log: Logger): (why: 'total' | 'perAddress') => void {
  const refused = { total: 0, perAddress: 0 };
  let reportedAt = Number.NEGATIVE_INFINITY;
  return why => {
    refused[why] += 1;
    const now = performance.now();
    if (now - reportedAt < reportMs) return;
    log.warn(
      { ...refused },
      'connections were refused: see limits.connections in the configuration',
    );
    reportedAt = now;
    Object.assign(refused, { total: 0, perAddress: 0 });
  };
}

/** Minimum progress in bytes. A client that transfers less within the time only holds the connection. */
const slowestBytes = 64 * 1024;
const looksPerStall = 4;

/** Where a direction of a connection was when it last made progress. */
interface Mark {
  bytes: number;
  at: number;
}

interface Marks {
  taken: Mark | undefined;
  sent: Mark | undefined;
}

/**
 * Ends connections whose client takes less than 64 KiB of a response, or sends less of a body, within
 * `stallMs` while the server waits for it. Delays by others do not count: a response that comes slowly
 * from upstream, a body that the server does not read. Returns a function that stops the watch.
 */
export function endSlowPeers(connections: Connections, stallMs: number): () => void {
  const marks = new WeakMap<Connection, Marks>();
  const look = (): void => {
    const now = performance.now();
    for (const connection of connections.list()) {
      const { socket } = connection;
      const seen = marks.get(connection) ?? { taken: undefined, sent: undefined };
      seen.taken = advancedMark(seen.taken, takenBytes(connection), now);
      seen.sent = advancedMark(seen.sent, sentBytes(connection), now);
      marks.set(connection, seen);
      if (isStalled(seen.taken, now, stallMs) || isStalled(seen.sent, now, stallMs)) {
        socket.destroy();
      }
    }
  };
  const timer = setInterval(look, Math.max(1, stallMs / looksPerStall)).unref();
  return () => clearInterval(timer);
}

function advancedMark(mark: Mark | undefined, bytes: number | undefined, now: number) {
  if (bytes === undefined) return undefined;
  return mark && bytes - mark.bytes < slowestBytes ? mark : { bytes, at: now };
}

function isStalled(mark: Mark | undefined, now: number, stallMs: number): boolean {
  return mark !== undefined && now - mark.at >= stallMs;
}

/** Returns the bytes that the client has taken; undefined while none wait for it. */
function takenBytes({ socket }: Connection): number | undefined {
  const waiting = socket.writableLength;
  return waiting === 0 ? undefined : socket.bytesWritten - waiting;
}

/** Returns the bytes that the client has sent; undefined while the server expects no body from it. */
function sentBytes({ socket, request }: Connection): number | undefined {
  if (!request || request.complete || request.readableLength > 0) return undefined;
  return socket.bytesRead;
}
