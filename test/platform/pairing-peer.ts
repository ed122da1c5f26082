import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Duplex } from 'node:stream';
import { WebSocket } from 'ws';
import type { Pairing } from '../../src/platform/pairing/pairing.ts';

export type Message = Readonly<Record<string, unknown>>;

/** Returns the platform's response to a request over its socket; undefined for none. */
export type Responder = (request: Message) => Message | undefined;

/** The platform's end of a pairing. */
export interface Peer {
  readonly socket: WebSocket;
  readonly pairingId: string;
  readonly publicKey: string;
  /** Requests that came, oldest first. */
  readonly requests: Message[];
  say(message: Message): void;
  /** The next message that is no request. */
  next(): Promise<Message>;
  /** The code it was closed with. */
  closed(): Promise<number>;
}

/** An HTTP server that passes its upgrades to the pairing. Returns its WebSocket address. */
export async function listen(
  pairing: Pairing,
): Promise<AsyncDisposable & { readonly url: string }> {
  const server: Server = createServer((_, response) => response.writeHead(404).end());
  const sockets = new Set<Duplex>();
  server.on('upgrade', (request, socket, head) => {
    sockets.add(socket);
    socket.once('close', () => sockets.delete(socket));
    if (!pairing.handleUpgrade(request, socket, head)) socket.end('HTTP/1.1 404 Not Found\r\n\r\n');
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `ws://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
      // The server does not own the passed connections any more.
      for (const socket of sockets) socket.destroy();
    },
  };
}

export function pairingUrl(
  url: string,
  token: string,
  endpoint: string,
  service = 'tower',
): string {
  return `${url}/pairing/${service}/token/${encodeURIComponent(token)}?endpoint=${encodeURIComponent(endpoint)}`;
}

/** Opens a socket as a platform does and waits for its key; answers requests in the given way. */
export async function pair(address: string, respond: Responder): Promise<Peer> {
  const socket = new WebSocket(address);
  const requests: Message[] = [];
  const messages: Message[] = [];
  const waiting: Array<(message: Message) => void> = [];
  const closed = new Promise<number>(resolve => socket.on('close', resolve));
  socket.on('message', data => {
    const message: Message = JSON.parse(String(data));
    if (message['@type'] !== 'proxy-http-request') {
      const taker = waiting.shift();
      return taker ? taker(message) : void messages.push(message);
    }
    requests.push(message);
    const reply = respond(message);
    if (reply) {
      socket.send(
        JSON.stringify({ '@type': 'proxy-http-response', msgId: message.msgId, ...reply }),
      );
    }
  });
  const next = async (): Promise<Message> =>
    messages.shift() ?? new Promise(resolve => waiting.push(resolve));
  await once(socket, 'open');
  const first = await next();
  return {
    socket,
    pairingId: String(first.pairingId),
    publicKey: String(first.publicKey),
    requests,
    say: message => socket.send(JSON.stringify(message)),
    next,
    closed: () => closed,
  };
}

/** How an attempt to open a socket that must fail was answered. */
export async function refusal(address: string): Promise<{ status: number; message: string }> {
  const socket = new WebSocket(address);
  const opened = once(socket, 'open').then(() => {
    socket.terminate();
    throw new Error(`${address} was let in`);
  });
  const [, response] = await Promise.race([once(socket, 'unexpected-response'), opened]);
  let body = '';
  for await (const chunk of response) body += chunk;
  return { status: response.statusCode, message: body === '' ? '' : JSON.parse(body).message };
}
