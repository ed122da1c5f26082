import {
  type ClientRequest,
  Agent as HttpAgent,
  request as httpRequest,
  type IncomingMessage,
  type ServerResponse,
} from 'node:http';
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https';
import type { Duplex } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { Fault } from '../../foundation/fault.ts';
import { endWith, rawResponse } from '../../foundation/responses.ts';
import { handedOnHeaders } from '../../http/index.ts';
import { largestOrder, mostReportedBytes, parseOrder } from '../../http/registry/index.ts';
import { traceHeaders } from '../../tracing/traces.ts';
import { type CurrentLeader, handedOver, type Outcome } from './current-leader.ts';
import type { OrderedBlobs } from './ordered-blobs.ts';

/** Hands requests on to the replica that leads. */
export interface HandOn {
  /**
   * Streams the request to the leader, and its response to the client. Waits while no replica leads.
   *
   * @throws {@link Fault} (503) when no replica leads in time, or the leader ends before its response
   */
  respond(request: IncomingMessage, response: ServerResponse): Promise<void>;
  /**
   * Sends the head of a request to a leader, as one without a body unless `more` frames one. The connection is made when
   * `connected` resolves.
   *
   * @param more names and values of further headers in turn
   */
  send(request: IncomingMessage, leader: URL, options?: SendOptions): Sent;
  /**
   * Sends a request without a body to the leader of the moment, once, and returns its whole response. Returns undefined
   * when no replica leads, or the leader does not answer in time.
   */
  ask(request: IncomingMessage, limitMs: number): Promise<WholeResponse | undefined>;
  /**
   * Throws a {@link Fault} below 500 when the leader would not send the blob of the request any more.
   */
  checkRight(request: IncomingMessage): Promise<void>;
  /**
   * Sends a message of this replica to the leader of the moment, once, and returns the body of its response. Returns
   * undefined when no replica leads, or the leader does not answer in time.
   *
   * @param header names the kind of the message
   */
  tell(header: string, body: string, limitMs: number): Promise<Buffer | undefined>;
  close(): void;
}

/** A response of the leader. */
export interface WholeResponse {
  readonly status: number;
  readonly body: string;
}

interface SendOptions {
  /** Names and values in turn. */
  readonly headers?: readonly string[];
  /** The leader's parser takes nothing after it for another request: its connection ends with it. */
  readonly hasBody?: boolean;
}

/** A request of which the leader gets the head. */
interface Sent {
  readonly out: ClientRequest;
  /** Resolves when the leader is connected. */
  readonly connected: Promise<void>;
}

// Shorter than the time for which a server keeps idle connections.
const idleMs = 30_000;
const connectMs = 3000;
const probeMs = 15_000;
const retryAfterSeconds = 1;

// They belong to one connection. Others that a client names in `Connection` stay: the leader reads no other header of a
// connection, and a client could hide its address or the length of its body. Source: RFC 9110, section 7.6.1.
const ofConnection = new Set([
  ...['connection', 'keep-alive', 'proxy-connection', 'te', 'trailer', 'transfer-encoding'],
  ...['upgrade', 'expect'],
]);
const ofReplicas = new Set<string>(Object.values(handedOnHeaders));
const emptyBodies = new Set(['POST', 'PUT', 'PATCH']);

/**
 * @param proof proves to the leader that a replica sends the request
 * @param blobs sends blobs, so that their bytes do not pass the leader
 */
export function createHandOn(leader: CurrentLeader, proof: string, blobs: OrderedBlobs): HandOn {
  const options = { keepAlive: true, timeout: idleMs, scheduling: 'lifo' } as const;
  const agents = { http: new HttpAgent(options), https: new HttpsAgent(options) };
  // Without `keepAlive`, an agent sends `Connection: close`.
  const ofBodies = { http: new HttpAgent(), https: new HttpsAgent() };

  const send: HandOn['send'] = (request, address, { headers = [], hasBody = false } = {}) => {
    const isPlain = address.protocol === 'http:';
    const { http, https } = hasBody ? ofBodies : agents;
    const { promise: connected, resolve, reject } = Promise.withResolvers<void>();
    const out = (isPlain ? httpRequest : httpsRequest)({
      hostname: address.hostname.replace(/^\[|\]$/g, ''),
      port: address.port,
      method: request.method,
      path: request.url,
      agent: isPlain ? http : https,
      headers: [...headersOf(request, address, proof), ...headers],
    });
    out.once('error', reject);
    connected.catch(() => {});
    out.once('socket', socket => {
      // An idle connection ends in time. Builds and downloads may be silent for longer.
      socket.setTimeout(0);
      socket.setKeepAlive(true, probeMs);
      if (!socket.connecting) return resolve();
      const timer = setTimeout(() => out.destroy(new Error('no connection in time')), connectMs);
      out.once('close', () => clearTimeout(timer));
      socket.once(isPlain ? 'connect' : 'secureConnect', () => {
        clearTimeout(timer);
        resolve();
      });
    });
    return { out, connected };
  };

  const exchange = async (
    address: URL,
    request: IncomingMessage,
    response: ServerResponse,
  ): Promise<Outcome> => {
    const framing = framingOf(request);
    const hasBody = framing !== undefined;
    const digest = orderableDigest(request);
    const takesOrder = digest !== undefined && blobs.accepts(digest);
    const headers = [...(framing ?? emptyFraming(request)), ...(takesOrder ? takesOrders : [])];
    const { out, connected } = send(request, address, { headers, hasBody });
    const end = () => void out.destroy();
    const { signal } = leader;
    const leadEnds = () => {
      if (signal.reason !== handedOver || !response.headersSent) end();
    };
    response.once('close', end);
    signal.addEventListener('abort', leadEnds);
    try {
      const responded = responseOf(out);
      responded.catch(() => {});
      const isConnected = await connected.then(
        () => true,
        () => false,
      );
      if (!isConnected) return 'unreached';
      if (hasBody) {
        // The connection may end before the leader sees the request. The client's body can be sent only once.
        if (!(await isAwaited(out))) {
          out.destroy();
          return 'ended';
        }
        request.pipe(out);
      } else out.end();
      const reply = await responded.catch(() => undefined);
      if (!reply || !isOfLeader(reply)) {
        reply?.resume();
        // A replica that does not lead has done nothing.
        if (!hasBody && (reply || mayRepeat(request))) return 'ended';
        throw leaderEnded();
      }
      if (reply.headers[handedOnHeaders.order] !== undefined) {
        const bytes = await readAtMost(reply, largestOrder).catch(() => undefined);
        if (!bytes) return 'ended';
        try {
          await blobs.send(parseOrder(bytes), request, response, () => checkRight(request));
        } catch (error) {
          // The leader sends what this server cannot read.
          if (takesOrder && !response.headersSent && !blobs.accepts(digest)) return 'ended';
          throw error;
        }
        return 'answered';
      }
      const isLast = !request.complete || response.getHeader('connection') === 'close';
      // Those of this server would stand beside those of the leader.
      for (const name of response.getHeaderNames()) response.removeHeader(name);
      response.writeHead(reply.statusCode ?? 0, reply.statusMessage ?? '', [
        ...withoutHeaders(ofConnection, reply.rawHeaders),
        // The leader did not want the rest of the body, or this server stops.
        ...(isLast ? ['connection', 'close'] : []),
      ]);
      // A client that leaves, or a leader that ends: the response must not look complete.
      await pipeline(reply, response).catch(() => response.destroy());
      return 'answered';
    } finally {
      request.unpipe(out);
      if (response.headersSent) request.resume();
      response.off('close', end);
      signal.removeEventListener('abort', leadEnds);
    }
  };

  /** Throws when the leader would not send the blob any more. */
  const checkRight = (request: IncomingMessage): Promise<void> =>
    leader.reach(
      async address => {
        const { out } = send(request, address, { headers: checksOnly });
        out.end();
        const response = await responseOf(out).catch(() => undefined);
        if (!response || !isOfLeader(response)) return 'ended';
        const { statusCode = 0 } = response;
        // The leader may have the blob by now, and would send all of it.
        if (statusCode === 200 && response.headers[handedOnHeaders.order] === undefined)
          out.destroy();
        else response.resume();
        if (statusCode >= 400 && statusCode < 500 && !rightStays.has(statusCode))
          throw rightEnded();
        return 'answered';
      },
      () => true,
    );

  const ask: HandOn['ask'] = async (request, limitMs) => {
    if (!leader.address) return undefined;
    const { out } = send(request, leader.address);
    const response = await readReply(out.end(), limitMs);
    return response && { ...response, body: response.body.toString() };
  };

  const tell: HandOn['tell'] = async (header, body, limitMs) => {
    if (!leader.address) return undefined;
    const isPlain = leader.address.protocol === 'http:';
    const out = (isPlain ? httpRequest : httpsRequest)(new URL('/healthz', leader.address), {
      method: 'POST',
      agent: isPlain ? agents.http : agents.https,
      headers: {
        [handedOnHeaders.proof]: proof,
        [handedOnHeaders.peer]: 'replica',
        [header]: 'yes',
        'content-type': 'application/json',
        'content-length': String(Buffer.byteLength(body)),
      },
    });
    const response = await readReply(out.end(body), limitMs);
    return response?.status === 200 ? response.body : undefined;
  };

  return {
    send,
    ask,
    checkRight,
    tell,
    respond: (request, response) =>
      leader.reach(
        address => exchange(address, request, response),
        () => !response.closed,
      ),
    close() {
      for (const { http, https } of [agents, ofBodies]) {
        http.destroy();
        https.destroy();
      }
    },
  };
}

function responseOf(out: ClientRequest): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    out.once('response', resolve);
    out.on('error', reject);
    out.once('close', () => reject(new Error('closed')));
  });
}

/**
 * Returns the status and body of the response; undefined where the leader ends or hangs, sends more than a message of pulls has, or where
 * the replica does not lead.
 */
async function readReply(
  out: ClientRequest,
  limitMs: number,
): Promise<{ readonly status: number; readonly body: Buffer } | undefined> {
  const timer = setTimeout(() => out.destroy(), limitMs);
  try {
    const response = await responseOf(out);
    const body = await readAtMost(response, mostReportedBytes);
    return isOfLeader(response) ? { status: response.statusCode ?? 0, body } : undefined;
  } catch {
    out.destroy();
    return undefined;
  } finally {
    clearTimeout(timer);
  }
}

/** Returns false for the response of a replica that does not lead. */
function isOfLeader({ headers }: IncomingMessage): boolean {
  return headers[handedOnHeaders.proof] === undefined;
}

/**
 * Returns false when the connection ended before the leader wanted the body, or when the replica does not lead. Source: RFC 9110,
 * section 10.1.1.
 */
function isAwaited(out: ClientRequest): Promise<boolean> {
  return new Promise(resolve => {
    out.once('continue', () => resolve(true));
    out.once('response', response => resolve(isOfLeader(response)));
    out.once('close', () => resolve(false));
    out.flushHeaders();
  });
}

/**
 * Returns the headers that frame the body of a request for the leader; undefined without a body. A body of GET or HEAD means
 * nothing, and such a request may be sent twice. Only the parsed headers count: without a frame, the leader would take the
 * body for another request.
 */
function framingOf({ method, headers }: IncomingMessage): string[] | undefined {
  if (method === 'GET' || method === 'HEAD') return undefined;
  const length = headers['content-length'] ?? '0';
  const isChunked = headers['transfer-encoding'] !== undefined;
  if (!isChunked && Number(length) === 0) return undefined;
  const frame = isChunked ? ['transfer-encoding', 'chunked'] : ['content-length', length];
  return [...frame, 'expect', '100-continue'];
}

/** Source: RFC 9110, section 8.6. */
function emptyFraming({ method = '' }: IncomingMessage): string[] {
  return emptyBodies.has(method) ? ['content-length', '0'] : [];
}

function mayRepeat({ method = '' }: IncomingMessage): boolean {
  return method === 'GET' || method === 'HEAD' || method === 'OPTIONS';
}

/** Returns names and values in turn, as Node takes them. */
function headersOf(request: IncomingMessage, leader: URL, proof: string): string[] {
  const { rawHeaders, headers, socket } = request;
  const trace = traceHeaders();
  const replaced = new Set([
    ...ofConnection,
    'content-length',
    ...ofReplicas,
    ...Object.keys(trace),
  ]);
  return [
    ...withoutHeaders(replaced, rawHeaders),
    ...Object.entries(trace).flat(),
    // HTTP/1.0 does not require it.
    ...(headers.host === undefined ? ['host', leader.host] : []),
    ...[handedOnHeaders.proof, proof],
    ...[handedOnHeaders.peer, socket.remoteAddress ?? 'unknown'],
  ];
}

function withoutHeaders(names: ReadonlySet<string>, raw: readonly string[]): string[] {
  return raw.filter((_, at) => !names.has((raw[at - (at % 2)] ?? '').toLowerCase()));
}

const takesOrders = [handedOnHeaders.order, 'yes'];
const checksOnly = [handedOnHeaders.order, 'look'];
// A token of a client ends before a long transfer, and is checked at its begin only. The second one is a limit.
const rightStays = new Set([401, 429]);

/** Returns the digest of a blob that a client wants now; the leader answers all else about it. */
function orderableDigest({ method, url = '', headers }: IncomingMessage): string | undefined {
  if (method !== 'GET' || headers['if-none-match'] !== undefined) return undefined;
  return /^\/v2\/.+\/blobs\/([^/]+)$/.exec(url)?.[1];
}

async function readAtMost(response: IncomingMessage, bytes: number): Promise<Buffer> {
  const parts: Buffer[] = [];
  let length = 0;
  for await (const part of response as AsyncIterable<Buffer>) {
    length += part.length;
    if (length > bytes) throw new Error('the response is too long');
    parts.push(part);
  }
  return Buffer.concat(parts);
}

function rightEnded(): Fault {
  return new Fault('denied', 'The right to this blob has ended: make a new container request');
}

function leaderEnded(): Fault {
  return new Fault(
    'unavailable',
    'The leading server of this site ended while it answered: send the request again',
    { phase: 'request', retryAfterSeconds },
  );
}

const leaderAway = 'The leading server of this site cannot be reached: try again in a moment';

/** Hands a WebSocket of a platform on to the replica that leads. It ends with that lead: the platform connects again. */
export function handOnUpgrade(
  leader: CurrentLeader,
  handOn: HandOn,
  request: IncomingMessage,
  socket: Duplex,
  head: Buffer,
): void {
  const refuse = () => endWith(socket, rawResponse(503, leaderAway, { 'retry-after': '5' }));
  const { address, signal } = leader;
  if (!address) {
    refuse();
    return;
  }
  const { upgrade = '' } = request.headers;
  const headers = ['connection', 'upgrade', 'upgrade', upgrade];
  const { out } = handOn.send(request, address, { headers });
  const end = () => {
    out.destroy();
    socket.destroy();
  };
  signal.addEventListener('abort', end);
  socket.once('close', () => {
    signal.removeEventListener('abort', end);
    out.destroy();
  });
  out.on('error', refuse);
  out.once('response', response => {
    out.off('error', refuse);
    socket.write(headOf(response));
    response.on('error', end).pipe(socket);
  });
  out.once('upgrade', (response, peer, first) => {
    out.off('error', refuse);
    peer.on('error', end).once('close', end);
    socket.write(headOf(response));
    socket.write(first);
    peer.write(head);
    peer.pipe(socket);
    socket.pipe(peer);
  });
  out.end();
}

function headOf({ statusCode, statusMessage, rawHeaders }: IncomingMessage): string {
  const lines = rawHeaders.map((text, at) => (at % 2 === 0 ? `${text}: ` : `${text}\r\n`));
  return `HTTP/1.1 ${statusCode} ${statusMessage}\r\n${lines.join('')}\r\n`;
}
