import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { endWith, rawAnswer } from '../../foundation/raw-answer.ts';
import type { Logger } from '../../foundation/telemetry.ts';
import { networkOf } from '../callers/client-address.ts';

export interface ConnectionLimits {
  /** Open at once. */
  readonly total: number;
  /** Open at once from one address, which is a /64 in IPv6; undefined where they come from proxies. */
  readonly perAddress: number | undefined;
}

/** One connection of a client. */
export interface Connection {
  /** What requests come over: with TLS the decrypted stream. */
  socket: Socket;
  /** The request that came last, and its answer, which is the last to be finished. */
  request: IncomingMessage | undefined;
  response: ServerResponse | undefined;
}

/** Every connection of the server: how many there may be, and which of them can end at once. */
export interface Connections {
  /** Lets the server take no connection that is too many, and counts what comes over the others. */
  guard(server: Server): void;
  /** All that are open, oldest first. */
  list(): Iterable<Connection>;
  /** True while a request on the connection is not answered. */
  isAnswering(socket: Socket): boolean;
  /**
   * Ends what no request is under way on (idle, silent and half-sent alike), and the others after their
   * answer. Resolves when none of those is left.
   */
  finish(): Promise<void>;
  /** Ends all. */
  destroy(): void;
}

interface Tracked extends Connection {
  readonly raw: Socket;
  readonly network: string;
  isReleased: boolean;
}

// Beyond it a connection that is refused ends without a word.
const mostFarewells = 50;
const reportMs = 60_000;

export function createConnections(
  { total, perAddress = Number.POSITIVE_INFINITY }: ConnectionLimits,
  log: Logger,
): Connections {
  const open = new Set<Tracked>();
  /** Those that never had a request, oldest first. */
  const silent = new Set<Tracked>();
  const bySocket = new WeakMap<Socket, Tracked>();
  const perNetwork = new Map<string, number>();
  const report = createReport(log);
  let farewells = 0;
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
    if (!isPlain || farewells >= mostFarewells) return void socket.destroy();
    farewells += 1;
    socket.once('close', () => {
      farewells -= 1;
    });
    endWith(socket, rawAnswer(503, tooMany[why], { 'retry-after': '5' }));
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
      ...{ raw: socket, socket, network, isReleased: false },
      ...{ request: undefined, response: undefined },
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
    for (const connection of open) if (!isAnswering(connection)) return connection;
    return undefined;
  };

  // Runs for every request: what can be found out when it is needed is not kept here.
  const begin = (request: IncomingMessage, response: ServerResponse): void => {
    const connection = bySocket.get(request.socket);
    if (!connection) return;
    if (!connection.response) silent.delete(connection);
    connection.request = request;
    connection.response = response;
    if (finished) endAfter(connection, response);
  };

  const endAfter = (connection: Tracked, response: ServerResponse): void => {
    if (!response.headersSent) response.setHeader('connection', 'close');
    response.once('close', () => {
      if (!isAnswering(connection)) connection.socket.destroySoon();
    });
  };

  /** The connection leaves HTTP for another protocol, whose own it is from now on. */
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
      // The server's own listener makes a parser for every connection: it must not see those that are refused.
      const accept = server.listeners('connection') as ((socket: Socket) => void)[];
      server.removeAllListeners('connection');
      /** Between connection and handshake, by the client's address and port. */
      const shaking = new Map<string, Tracked>();
      server.on('connection', (socket: Socket) => {
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
        for (const listener of accept) listener.call(server, socket);
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
        // Nobody else to take it, as while the server starts.
        if (server.listenerCount('upgrade') === 1) request.socket.destroy();
      });
    },

    list: () => open,

    isAnswering(socket) {
      const connection = bySocket.get(socket);
      return connection !== undefined && isAnswering(connection);
    },

    finish() {
      finished ??= Promise.withResolvers();
      for (const connection of open) {
        if (connection.isReleased) continue;
        if (connection.response && isAnswering(connection))
          endAfter(connection, connection.response);
        else end(connection);
      }
      settle();
      return finished.promise;
    },

    destroy() {
      for (const connection of open) end(connection);
    },
  };
}

/** True while an answer is due on the connection, which has other owners once it has left HTTP. */
function isAnswering({ response, isReleased }: Tracked): boolean {
  return isReleased || (response !== undefined && !response.closed);
}

const tooMany = {
  total: 'The server has as many connections as it can take: try again in some seconds',
  perAddress:
    'Too many connections from your address are open: close some, or reuse them for several requests',
};

function peerOf({ remoteAddress, remotePort }: Socket): string {
  return `${remoteAddress} ${remotePort}`;
}

/** Logs how many connections were refused, once a minute at most: a flood must not fill the log. */
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
