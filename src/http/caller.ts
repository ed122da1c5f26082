import type { IncomingMessage } from 'node:http';

/**
 * The address of who sent the request. Behind proxies of one's own that is in `X-Forwarded-For`, of
 * which only as many entries are trusted, from the right, as there are such proxies: the rest could
 * be anybody's invention.
 */
export function callerAddress(request: IncomingMessage, trustedProxies: number): string {
  const socket = (request.socket.remoteAddress ?? 'unknown').replace(/^::ffff:/, '');
  if (trustedProxies === 0) return socket;
  const forwarded = String(request.headers['x-forwarded-for'] ?? '')
    .split(',')
    .map(entry => entry.trim())
    .filter(entry => entry !== '');
  return forwarded.at(-trustedProxies) ?? forwarded[0] ?? socket;
}
