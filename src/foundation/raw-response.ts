import { STATUS_CODES } from 'node:http';
import type { Duplex } from 'node:stream';
import { securityHeaders } from './security-headers.ts';

/**
 * Returns the text of a response to bytes that never became a request: a malformed head, a connection above the limit,
 * a refused upgrade. The connection ends with the response.
 *
 * @param headers in addition to those of every response
 */
export function rawResponse(
  status: number,
  message: string,
  headers: Readonly<Record<string, string>> = {},
): string {
  const body = JSON.stringify({ message });
  const lines = Object.entries({
    connection: 'close',
    'content-type': 'application/json',
    'content-length': String(Buffer.byteLength(body)),
    ...securityHeaders,
    ...headers,
  }).map(([name, value]) => `${name}: ${value}\r\n`);
  return `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ''}\r\n${lines.join('')}\r\n${body}`;
}

// Long enough for the response to arrive, short enough that refusals cost nothing.
const lingerMs = 1000;

/**
 * Sends the response and ends the connection within a second. Reads and drops the client's remaining bytes meanwhile:
 * closing a connection with unread bytes would reset it before the client has read the response.
 */
export function endWith(socket: Duplex, response: string): void {
  socket.on('error', () => {});
  const timer = setTimeout(() => socket.destroy(), lingerMs).unref();
  socket.once('close', () => clearTimeout(timer));
  socket.resume();
  socket.end(response);
}
