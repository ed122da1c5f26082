import type { Server } from 'node:http';
import type { Socket } from 'node:net';
import { endWith, rawResponse } from '../../foundation/responses.ts';
import type { Connections } from '../limits/connections.ts';

const responses: Readonly<Record<string, readonly [number, string]>> = {
  ERR_HTTP_REQUEST_TIMEOUT: [408, 'The head of the request did not arrive in time: send it again'],
  HPE_HEADER_OVERFLOW: [431, 'The head of the request is too large: send fewer or shorter headers'],
  HPE_CHUNK_EXTENSIONS_OVERFLOW: [413, 'The chunk extensions of the body are too large'],
};
const malformed = [400, 'This is not a well-formed HTTP/1.1 request'] as const;

/**
 * Answers requests that Node's parser rejects, with the headers of every response. Node's own responses have none.
 * Nothing is logged, because anybody can send such bytes at any rate.
 */
export function respondToBrokenRequests(server: Server, connections: Connections): void {
  server.on('clientError', (error: NodeJS.ErrnoException, socket: Socket) => {
    // These bytes are the rest of a request that was already answered.
    if (socket.writableEnded) return;
    const code = error.code ?? '';
    const isParsed = code.startsWith('HPE_') || code === 'ERR_HTTP_REQUEST_TIMEOUT';
    // Never write into the middle of another response, or before the TLS handshake ends.
    if (!isParsed || !socket.writable || connections.isResponding(socket)) {
      return void socket.destroy();
    }
    const [status, message] = responses[code] ?? malformed;
    endWith(socket, rawResponse(status, message));
  });
  // By default, Node answers 417. A server may ignore the expectation (RFC 9110, section 10.1.1).
  server.on('checkExpectation', (request, response) => server.emit('request', request, response));
}
