import type { IncomingMessage } from 'node:http';
import { isIP } from 'node:net';

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
  const entry = forwarded.at(-trustedProxies) ?? forwarded[0] ?? '';
  // Some proxies write the port along, which is another one for each connection.
  const address = entry
    .replace(/^\[(.*)\](?::\d+)?$/, '$1')
    .replace(/^([\d.]+):\d+$/, '$1')
    .replace(/^::ffff:(?=[\d.]+$)/i, '');
  return isIP(address) === 0 ? socket : address;
}
