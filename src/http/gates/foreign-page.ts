import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import { Fault } from '../../foundation/fault.ts';
import type { Check } from '../request-state.ts';
import { pathOfTarget } from '../request-target.ts';

const readingMethods = new Set(['GET', 'HEAD', 'OPTIONS']);
const ownSites = new Set<unknown>([undefined, 'same-origin', 'none']);

/**
 * Rejects requests that a page of another origin sends through a browser, if they would change something. Even without
 * cookies, such a page can reach servers on the user's machine and network, and can do harm without seeing a response.
 * Clients that are not browsers send neither of the two headers.
 *
 * @param isAllowed returns true for a request of a page that the operator has listed
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

/**
 * Rejects a form that a page of another origin sends. `cors.origins` makes no difference here: it lets pages call the
 * API with their own token, and a form brings the session of the person who looks at the page. A form with a
 * cookie must say which page sent it.
 */
export function refuseForeignForms(publicUrl: URL): Check {
  return ({ req: { method = '', headers } }) => {
    if (readingMethods.has(method)) return;
    if (isForeign(headers, publicUrl)) {
      throw new Fault(
        'denied',
        `A page of another origin sent this form: use a page of ${publicUrl.origin}, or the API with a token`,
        { phase: 'request' },
      );
    }
    const saysWhere = headers.origin !== undefined || headers['sec-fetch-site'] !== undefined;
    if (saysWhere || headers.cookie === undefined) return;
    throw new Fault(
      'denied',
      'The browser did not say which page sent this form: use a current browser, or the API with a token',
      { phase: 'request' },
    );
  };
}

/** Returns true if a request may become a WebSocket: its path is below `/pairing/`, and no foreign page sent it. */
export function mayUpgrade({ url = '', headers }: IncomingMessage, publicUrl: URL): boolean {
  return pathOfTarget(url)?.startsWith('/pairing/') === true && !isForeign(headers, publicUrl);
}

function isWebSocket({ upgrade = '' }: IncomingHttpHeaders): boolean {
  return upgrade.toLowerCase() === 'websocket';
}

function isForeign(headers: IncomingHttpHeaders, publicUrl: URL): boolean {
  const { origin, host } = headers;
  if (!isOwnSite(headers)) return true;
  if (origin === undefined || origin === publicUrl.origin) return false;
  // The server answers to its own hosts only: this is one of them.
  return origin !== `http://${host}` && origin !== `https://${host}`;
}

function isOwnSite(headers: IncomingHttpHeaders): boolean {
  return ownSites.has(headers['sec-fetch-site']);
}
