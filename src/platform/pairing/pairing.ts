import { createHash, timingSafeEqual } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import type { WebSocket, WebSocketServer } from 'ws';
import { Fault } from '../../foundation/fault.ts';
import { endWith, rawResponse } from '../../foundation/responses.ts';
import type { Logger } from '../../foundation/telemetry/index.ts';
import type { HttpRequest, UpstreamResponse } from '../../upstream/index.ts';
import type { Endpoint, Endpoints } from '../endpoint.ts';
import type { PairingKeys } from './pairing-keys.ts';
import { attachPairingSocket, type PairingSocket } from './pairing-socket.ts';

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

export interface PairingDeps {
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
        visitor = admit(url, service, decoded(encoded));
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

function decoded(text: string): string {
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
