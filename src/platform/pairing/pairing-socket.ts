import { randomUUID } from 'node:crypto';
import type { WebSocket } from 'ws';
import type { Logger } from '../../foundation/telemetry/index.ts';
import { sourceOfBytes } from '../../storage/content/byte-source.ts';
import type { HttpRequest, UpstreamResponse } from '../../upstream/index.ts';
import { type ReceivedMessage, readMessage, type SentMessage } from './pairing-messages.ts';

/** One socket of a paired platform: requests go to the platform over the socket that it opened. */
export interface PairingSocket {
  /** Rejects like a broken connection when the socket closes first, and rejects on a timeout. */
  send(request: HttpRequest): Promise<UpstreamResponse>;
  close(): void;
}

export interface PairingSocketDeps {
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

export function attachPairingSocket(deps: PairingSocketDeps): PairingSocket {
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
