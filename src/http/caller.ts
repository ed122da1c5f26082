import type { IncomingMessage } from 'node:http';
import { isIP } from 'node:net';

/** The network that an address is of, all of which is usually one customer's: /64 in IPv6. Source: RFC 6177. */
export function networkOf(address: string): string {
  if (isIP(address) !== 6) return address;
  const groups = (text: string) => text.split(':').filter(group => group !== '');
  const [head = '', tail = ''] = address.replace(/%.*$/, '').split('::');
  const [first, last] = [groups(head), groups(tail)];
  // An IPv4 address at the end stands for two groups.
  const known = first.length + last.length + (address.includes('.') ? 1 : 0);
  const all = [...first, ...Array.from({ length: 8 - known }, () => '0'), ...last];
  const numbers = all.slice(0, 4).map(group => Number.parseInt(group, 16).toString(16));
  return `${numbers.join(':')}::/64`;
}

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
