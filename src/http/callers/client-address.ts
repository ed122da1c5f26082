import type { IncomingMessage } from 'node:http';
import { isIP, SocketAddress } from 'node:net';

/**
 * Returns the network that an address is of, all of which is usually one customer's: /64 in IPv6, the address
 * itself in IPv4. Everything that is counted by address is counted by this. Source: RFC 6177.
 */
export function networkOf(given: string): string {
  const address = spelled(given);
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
 * Returns the address of the sender of a request. Behind the operator's own proxies it is in `X-Forwarded-For`. Only
 * as many entries are trusted, from the right, as there are such proxies: anybody can invent the rest.
 */
export function callerAddress(request: IncomingMessage, trustedProxies: number): string {
  const socket = spelled(request.socket.remoteAddress ?? 'unknown');
  if (trustedProxies === 0) return socket;
  const forwarded = String(request.headers['x-forwarded-for'] ?? '')
    .split(',')
    .map(entry => entry.trim())
    .filter(entry => entry !== '');
  const entry = forwarded.at(-trustedProxies) ?? forwarded[0] ?? '';
  // Some proxies write the port along, which is another one for each connection.
  const address = entry.replace(/^\[(.*)\](?::\d+)?$/, '$1').replace(/^([\d.]+):\d+$/, '$1');
  return isIP(address) === 0 ? socket : spelled(address);
}

const mapped = /^::ffff:(?=[\d.]+$)/i;

/** Returns one spelling for each address; an IPv4 address inside an IPv6 address becomes IPv4. */
function spelled(given: string): string {
  const address = given.replace(mapped, '');
  if (isIP(address) !== 6) return address;
  const [bare = ''] = address.split('%');
  const known = new SocketAddress({ address: bare, family: 'ipv6' }).address;
  return known.replace(mapped, '');
}
