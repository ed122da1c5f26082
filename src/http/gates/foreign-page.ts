import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import { isIP } from 'node:net';
import { Fault } from '../../foundation/fault.ts';
import { pathOfTarget } from '../request-target.ts';
import type { Check } from './gate.ts';

const readingMethods = new Set(['GET', 'HEAD', 'OPTIONS']);
const ownSites = new Set<unknown>([undefined, 'same-origin', 'none']);

/**
 * Rejects requests that a page of another origin had a browser send and that would change something. Even without
 * cookies, such a page reaches servers on the user's machine and network, and needs no answer to do harm. Clients
 * that are not browsers send neither of the two headers.
 *
 * @param isAllowed true for a page that the operator has listed
 * Source: Fetch Metadata Request Headers; Fetch standard, `Origin`.
 */
export function refuseForeignPages(
  publicUrl: URL,
  isAllowed: (request: IncomingMessage) => boolean = () => false,
): Check {
  return ({ req }) => {
    const { method = '', headers } = req;
    const isReading = readingMethods.has(method) && !isWebSocket(headers);
    if (isReading || !isForeign(headers, publicUrl)) return;
    if (!isWebSocket(headers) && isAllowed(req)) return;
    throw new Fault(
      'denied',
      `A page of another origin sent this request: use a page of ${publicUrl.origin}, or a client that is not a browser. The operator can allow other origins with cors.origins`,
      { phase: 'request' },
    );
  };
}

/** True for a request that is to become a WebSocket: one for `/pairing/`, and not of a page elsewhere. */
export function mayUpgrade({ url = '', headers }: IncomingMessage, publicUrl: URL): boolean {
  if (!pathOfTarget(url)?.startsWith('/pairing/')) return false;
  // A platform sends the origin of the address that it was given, by whatever name; the token in the path
  // is its right, which no page knows.
  return headers.origin === `http://${headers.host}` || headers.origin === `https://${headers.host}`
    ? isOwnSite(headers)
    : !isForeign(headers, publicUrl);
}

function isWebSocket({ upgrade = '' }: IncomingHttpHeaders): boolean {
  return upgrade.toLowerCase() === 'websocket';
}

function isForeign(headers: IncomingHttpHeaders, publicUrl: URL): boolean {
  const { origin, host } = headers;
  if (!isOwnSite(headers)) return true;
  if (origin === undefined || origin === publicUrl.origin) return false;
  const page = URL.parse(origin);
  // By another name than the public one only where that name cannot be pointed here by somebody else:
  // a page of theirs would have the same origin as this server then (DNS rebinding).
  return !page || page.host !== host || !isFixedName(page.hostname);
}

function isOwnSite(headers: IncomingHttpHeaders): boolean {
  return ownSites.has(headers['sec-fetch-site']);
}

function isFixedName(hostname: string): boolean {
  return hostname === 'localhost' || isIP(hostname.replace(/^\[|\]$/g, '')) !== 0;
}
