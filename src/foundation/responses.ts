import { STATUS_CODES } from 'node:http';
import type { Duplex } from 'node:stream';

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

/** A document of this server must not load or run anything, must not appear in a frame, and has an opaque origin. */
const nothingAllowed = "default-src 'none'; frame-ancestors 'none'; sandbox";

const policyHeader = 'content-security-policy';

/**
 * Headers of every response, whatever its type. The origin of this server also serves content of registries and users,
 * so a browser must neither guess another type for it nor run anything in it.
 */
export const securityHeaders: Readonly<Record<string, string>> = {
  'x-content-type-options': 'nosniff',
  [policyHeader]: nothingAllowed,
};

/**
 * The same for a response over TLS: browsers then use only https for this host. Only this host, because others of its
 * domain may have no certificate.
 */
export const securityHeadersOverTls: Readonly<Record<string, string>> = {
  ...securityHeaders,
  'strict-transport-security': 'max-age=31536000',
};

/**
 * Returns the headers of a page of this server. Only scripts and styles with the nonce are loaded; the page may
 * call this server and send forms to it.
 */
export function pageHeaders(nonce: string): Record<string, string> {
  const policy = [
    "default-src 'none'",
    `script-src 'nonce-${nonce}'`,
    `style-src 'nonce-${nonce}'`,
    "img-src 'self' data:",
    "connect-src 'self'",
    "base-uri 'none'",
    "form-action 'self'",
    "frame-ancestors 'none'",
  ];
  // With `no-referrer`, a browser would send the forms of this server's own pages with the origin `null`.
  return { [policyHeader]: policy.join('; '), 'referrer-policy': 'same-origin' };
}
