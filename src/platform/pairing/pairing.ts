import { createHash, randomUUID, timingSafeEqual } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import type { WebSocket, WebSocketServer } from 'ws';
import { z } from 'zod';
import { Fault } from '../../foundation/fault.ts';
import { type JsonShape, parseShaped } from '../../foundation/json-shape.ts';
import { endWith, rawResponse } from '../../foundation/responses.ts';
import type { Logger } from '../../foundation/telemetry/index.ts';
import { sourceOfBytes } from '../../storage/content/byte-source.ts';
import type { HttpRequest, UpstreamResponse } from '../../upstream/index.ts';
import type { Endpoint, Endpoints } from '../endpoint.ts';
import type { PairingKeys } from './pairing-keys.ts';

/** Platforms that have opened a socket to this server, so that it can call those that it cannot reach directly. */
export interface Pairing {
  /**
   * Handles an `upgrade` of the HTTP server. Returns false, without any effect, when the path is not
   * `/pairing/{service}/token/{token}`.
   */
  handleUpgrade(request: IncomingMessage, socket: Duplex, head: Buffer): boolean;
  isPaired(endpoint: Endpoint): boolean;
  /** Sends a request to a paired platform; rejects as a direct connection would. */
  send(endpoint: Endpoint, request: HttpRequest): Promise<UpstreamResponse>;
  close(): void;
}

interface PairingDeps {
  readonly endpoints: Endpoints;
  readonly keys: PairingKeys;
  /**
   * The token that a platform must present. Without it no platform can pair, because a pairing receives users' tokens.
   */
  readonly token: string | undefined;
  readonly timeoutMs: number;
  readonly log: Logger;
  readonly pingMs?: number;
}

const pathPattern = /^\/pairing\/([A-Za-z0-9_-]{1,40})\/token\/([^/]+)$/;
// Source: reference service, section 1.9.
const maxPayload = 16 * 1024 * 1024;
const maxSockets = 20;
const usualPingMs = 30_000;

interface Visitor {
  readonly service: string;
  readonly endpoint: Endpoint;
}

export function createPairing(deps: PairingDeps): Pairing {
  const { endpoints, keys, log, timeoutMs, pingMs = usualPingMs } = deps;
  // Loaded when a platform first connects: most servers never see one.
  let loading: Promise<WebSocketServer> | undefined;
  const loadServer = async () => {
    const { WebSocketServer } = await import('ws');
    return new WebSocketServer({ noServer: true, maxPayload });
  };
  const paired = new Map<string, PairingSocket[]>();
  const socketsOf = (endpoint: Endpoint) => paired.get(endpoint.id) ?? [];

  const admit = (url: URL, service: string, shown: string): Visitor => {
    const refuse = (message: string): never => {
      throw new Fault('denied', message, { phase: 'credentials' });
    };
    if (deps.token === undefined) {
      refuse(
        'No platform can pair with this server: ask its operator to set platform.pairingToken',
      );
    }
    if (!isSame(shown, deps.token ?? ''))
      refuse('The pairing token is wrong: send the value of platform.pairingToken');
    const address = url.searchParams.get('endpoint') ?? '';
    if (address === '') {
      throw new Fault('bad-request', "The address of the platform is missing: '?endpoint=<url>'");
    }
    const endpoint = endpoints.resolve(address);
    if (endpoint.isOwn) refuse('The built-in platform does not require a pairing');
    if (socketsOf(endpoint).length >= maxSockets) {
      throw new Fault(
        'too-many-requests',
        `${endpoint.host} already has ${maxSockets} open sockets: close one first`,
      );
    }
    return { service, endpoint };
  };

  const welcome = async (socket: WebSocket, { service, endpoint }: Visitor): Promise<void> => {
    // Nobody else listens until the socket is attached, and an error without a listener would end the process.
    socket.on('error', () => {});
    const pairing = await keys.lease(service, endpoint);
    if (socket.readyState !== socket.OPEN) return;
    const isKept = () => keys.isKept(pairing.id);
    const attached = attachPairingSocket({ socket, pairing, isKept, timeoutMs, pingMs, log });
    paired.set(endpoint.id, [...socketsOf(endpoint), attached]);
    const who = { service, platform: endpoint.host, pairing: pairing.id };
    log.info(who, 'platform paired');
    socket.on('close', code => {
      const left = socketsOf(endpoint).filter(other => other !== attached);
      if (left.length > 0) paired.set(endpoint.id, left);
      else paired.delete(endpoint.id);
      log.info({ ...who, code }, 'platform left');
    });
  };

  return {
    handleUpgrade(request, socket, head) {
      const url = URL.parse(`http://localhost${request.url ?? ''}`);
      const [, service = '', encoded = ''] = pathPattern.exec(url?.pathname ?? '') ?? [];
      if (!url || service === '') return false;
      socket.on('error', () => {});
      let visitor: Visitor;
      try {
        visitor = admit(url, service, decodedSegment(encoded));
      } catch (error) {
        refuseUpgrade(socket, error);
        return true;
      }
      const fail = (err: unknown, end: () => void) => {
        log.error({ err }, 'pairing');
        end();
      };
      loading ??= loadServer();
      loading
        .then(server =>
          server.handleUpgrade(request, socket, head, webSocket => {
            welcome(webSocket, visitor).catch(err => fail(err, () => webSocket.terminate()));
          }),
        )
        .catch(err => fail(err, () => socket.destroy()));
      return true;
    },

    isPaired: endpoint => paired.has(endpoint.id),

    async send(endpoint, request) {
      const [first, ...others] = socketsOf(endpoint);
      // The socket closed a moment ago. A retry goes directly or over the platform's next socket.
      if (!first) throw Object.assign(new Error('The socket is closed'), { code: 'ECONNRESET' });
      // Sockets take turns: a platform with several processes opens a socket from each.
      paired.set(endpoint.id, [...others, first]);
      return first.send(request);
    },

    close() {
      for (const sockets of paired.values()) for (const socket of sockets) socket.close();
    },
  };
}

/** Reports the error as an HTTP response, because there is no WebSocket yet. */
function refuseUpgrade(socket: Duplex, error: unknown): void {
  const fault = error instanceof Fault ? error : new Fault('internal', 'The pairing failed');
  endWith(socket, rawResponse(fault.status, fault.message));
}

function decodedSegment(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return '';
  }
}

/** Compares in constant time. */
function isSame(one: string, other: string): boolean {
  const hash = (text: string) => createHash('sha256').update(text).digest();
  return timingSafeEqual(hash(one), hash(other));
}

/** One socket of a paired platform: requests go to the platform over the socket that it opened. */
interface PairingSocket {
  /** Rejects like a broken connection when the socket closes first, and rejects on a timeout. */
  send(request: HttpRequest): Promise<UpstreamResponse>;
  close(): void;
}

interface PairingSocketDeps {
  readonly socket: WebSocket;
  /** The pairing that the first message announces. */
  readonly pairing: { readonly id: string; readonly publicKey: string };
  /** False when the key pair no longer exists, so that the platform must pair again. */
  readonly isKept: () => Promise<boolean>;
  /** Timeout for requests that do not set their own (ms). */
  readonly timeoutMs: number;
  /** Interval of the pings that check the connection (ms). */
  readonly pingMs: number;
  readonly log: Logger;
}

// RFC 6455, section 7.4.1.
const goingAway = 1001;
const unsupportedData = 1003;

type HttpReply = Extract<ReceivedMessage, { '@type': 'proxy-http-response' }>;

function attachPairingSocket(deps: PairingSocketDeps): PairingSocket {
  const { socket, pairing, isKept, timeoutMs, pingMs, log } = deps;
  const waiting = new Map<string, PromiseWithResolvers<UpstreamResponse>>();
  const say = (message: SentMessage) => socket.send(JSON.stringify(message));

  let isAlive = true;
  const pinging = setInterval(() => {
    if (!isAlive) return socket.terminate();
    isAlive = false;
    socket.ping();
  }, pingMs).unref();

  const beat = async (msgId: string): Promise<void> => {
    const isKnown = await isKept();
    if (socket.readyState !== socket.OPEN) return;
    if (isKnown) say({ '@type': 'pairing-heartbeat', msgId });
    else socket.close(goingAway, 'The pairing is no longer known: connect again');
  };

  socket.on('pong', () => {
    isAlive = true;
  });
  const fail = (err: unknown) => {
    log.error({ err }, 'pairing');
    socket.terminate();
  };
  const take = (message: ReceivedMessage | undefined) => {
    // This reads the database, which may fail.
    if (message?.['@type'] === 'pairing-heartbeat') beat(message.msgId).catch(fail);
    if (message?.['@type'] === 'proxy-http-response') {
      waiting.get(message.msgId)?.resolve(responseOf(message));
    }
  };
  socket.on('message', (data, isBinary) => {
    isAlive = true;
    if (isBinary) return socket.close(unsupportedData);
    try {
      take(readMessage(String(data)));
    } catch (err) {
      fail(err);
    }
  });
  // The `close` event that follows reports the reason.
  socket.on('error', () => {});
  socket.on('close', () => {
    clearInterval(pinging);
    for (const { reject } of waiting.values()) reject(withCode('ECONNRESET'));
  });
  const { id: pairingId, publicKey } = pairing;
  say({ '@type': 'pairing-response', msgId: randomUUID(), pairingId, publicKey });

  return {
    async send({ url, method, headers, body, headersMs = timeoutMs }) {
      const { authorization: auth, ...others } = headers;
      const msgId = randomUUID();
      const pending = Promise.withResolvers<UpstreamResponse>();
      const late = setTimeout(() => pending.reject(withCode('UND_ERR_HEADERS_TIMEOUT')), headersMs);
      waiting.set(msgId, pending);
      try {
        if (socket.readyState !== socket.OPEN) throw withCode('ECONNRESET');
        say({
          '@type': 'proxy-http-request',
          msgId,
          method,
          uri: url.href,
          auth,
          body: typeof body === 'string' ? body : undefined,
          headers: Object.fromEntries(
            Object.entries(others).map(([name, value]) => [name, [value]]),
          ),
        });
        return await pending.promise;
      } finally {
        clearTimeout(late);
        waiting.delete(msgId);
      }
    },

    close: () => socket.close(goingAway, 'The server is stopping'),
  };
}

function responseOf({ status, body, headers }: HttpReply): UpstreamResponse {
  const bytes = Buffer.from(body ?? '');
  const flat = Object.entries(headers ?? {}).map(
    ([name, values]) => [name.toLowerCase(), values.join(', ')] as const,
  );
  return {
    status,
    headers: new Map(flat),
    contentLength: bytes.length,
    body: sourceOfBytes(bytes),
  };
}

/** Returns an error like that of a direct connection. */
function withCode(code: string): Error {
  return Object.assign(new Error('The pairing socket ended or did not answer'), { code });
}

/** A message that Sluice sends over a pairing socket. Source: reference service, section 1.9. */
type SentMessage =
  | {
      readonly '@type': 'pairing-response';
      readonly msgId: string;
      readonly pairingId: string;
      /** DER of the SubjectPublicKeyInfo, base64. */
      readonly publicKey: string;
    }
  | {
      readonly '@type': 'proxy-http-request';
      readonly msgId: string;
      readonly method: string;
      readonly uri: string;
      /** The whole `Authorization` value. */
      readonly auth: string | undefined;
      readonly body: string | undefined;
      readonly headers: Readonly<Record<string, readonly string[]>>;
    }
  | { readonly '@type': 'pairing-heartbeat'; readonly msgId: string };

// The body of a response is one JSON string, with every quote in it escaped.
const messageShape: JsonShape = { maxValues: 10_000, maxDepth: 8, maxEscapes: 1_000_000 };

const headerValues = z.union([z.string().transform(value => [value]), z.array(z.string())]);

const receivedSchema = z.discriminatedUnion('@type', [
  z.object({
    '@type': z.literal('proxy-http-response'),
    msgId: z.string(),
    status: z.number().int().min(100).max(599),
    body: z.string().nullish(),
    headers: z.record(z.string(), headerValues).nullish(),
  }),
  z.object({ '@type': z.literal('pairing-heartbeat'), msgId: z.string() }),
]);

/** A message that a platform sends over a pairing socket. */
type ReceivedMessage = z.output<typeof receivedSchema>;

/** Returns the message; undefined if it is malformed or of an unknown type. */
function readMessage(text: string): ReceivedMessage | undefined {
  try {
    return receivedSchema.safeParse(parseShaped(Buffer.from(text), messageShape)).data;
  } catch {
    return undefined;
  }
}
