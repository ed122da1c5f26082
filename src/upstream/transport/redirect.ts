import { Fault } from '../../foundation/fault.ts';
import { closedAddressIn } from './address-guard.ts';
import type { HttpRequest } from './transport.ts';
import type { UpstreamResponse } from './upstream-response.ts';

const redirecting = new Set([301, 302, 303, 307, 308]);

/**
 * Returns the request that follows a redirect; undefined when the response is not a redirect. Credentials go only to
 * their own origin: once a redirect has left it, they are not sent again. A redirect must not lead from https to plain
 * http. Otherwise destroys the body and throws a {@link Fault}.
 */
export function redirectedRequest(
  request: HttpRequest,
  response: UpstreamResponse,
): HttpRequest | undefined {
  const location = response.headers.get('location');
  if (!redirecting.has(response.status) || location === undefined) return undefined;
  const refuse = (where: string): never => {
    response.body.destroy();
    throw refused(request, where);
  };
  if (!URL.canParse(location, request.url.href)) return refuse('an address that is not a URL');
  const url = new URL(location, request.url);
  const isWeb = url.protocol === 'https:' || url.protocol === 'http:';
  if (!isWeb) return refuse(`the protocol ${url.protocol}`);
  if (request.url.protocol === 'https:' && url.protocol === 'http:') {
    return refuse(`${url.host} over plain http`);
  }
  const { authorization, ...others } = request.headers;
  const stays = url.origin === request.url.origin && authorization !== undefined;
  const from = request.from ?? request.url;
  return { ...request, url, from, headers: stays ? { ...others, authorization } : others };
}

function refused(request: HttpRequest, where: string): Fault {
  const { host } = request.url;
  return new Fault(
    'upstream-unusable',
    `${host} redirects to ${where}, which is refused: tell the operator of ${host}`,
    { phase: 'upstream' },
  );
}

/** A request that failed after a redirect. The host that it was sent to at first is not the one at fault. */
export class RedirectFailure extends Error {
  readonly to: URL;
  /** That of the cause, which decides about another attempt. */
  readonly code: unknown;

  constructor(from: URL, to: URL, cause: Error) {
    super(`${from.host} redirects to ${to.host}, which`, { cause });
    this.to = to;
    this.code = 'code' in cause ? cause.code : undefined;
  }
}

/**
 * A closed address in an image name is the caller's mistake. One in a registry's redirect is denied, with the reason.
 *
 * @param listing what the operator can list to allow it
 */
export function redirected(error: unknown, from: URL, to: URL, listing = 'it'): unknown {
  if (!closedAddressIn(error)) {
    const isFinal =
      error instanceof Fault || !(error instanceof Error) || error.name === 'AbortError';
    return isFinal ? error : new RedirectFailure(from, to, error);
  }
  return new Fault(
    'denied',
    `${from.host} redirects to '${to.host}', a loopback, private or otherwise closed network address, which is refused: the operator can allow it by listing ${listing} in the configuration`,
    { phase: 'upstream', cause: error },
  );
}
