import type { IncomingMessage } from 'node:http';
import { isIP, SocketAddress } from 'node:net';
import { stateOf } from './request-state.ts';

/**
 * Returns the network of an address: its /64 in IPv6, the address itself in IPv4. Such a network usually belongs to one
 * subscriber. All limits and counts by address use this network. Source: RFC 6177.
 */
export function networkOf(given: string): string {
  const address = spelled(given);
  if (isIP(address) !== 6) return address;
  const groups = (text: string) => text.split(':').filter(group => group !== '');
  const [head = '', tail = ''] = address.split('::');
  const [first, last] = [groups(head), groups(tail)];
  // An IPv4 address at the end is one group here instead of two: it has only zeros before it.
  const zeros = Array.from({ length: 8 - first.length - last.length }, () => '0');
  const all = [...first, ...zeros, ...last];
  const numbers = all.slice(0, 4).map(group => Number.parseInt(group, 16).toString(16));
  return `${numbers.join(':')}::/64`;
}

/**
 * Returns the address of the sender of a request. Behind the operator's own proxies, `X-Forwarded-For` has the address.
 * Only the rightmost entries are trusted, one for each such proxy: anybody can invent the others.
 */
export function callerAddress(request: IncomingMessage, trustedProxies: number): string {
  const socket = spelled(
    stateOf(request).handedOn?.peer ?? request.socket.remoteAddress ?? 'unknown',
  );
  if (trustedProxies === 0) return socket;
  const forwarded = String(request.headers['x-forwarded-for'] ?? '')
    .split(',')
    .map(entry => entry.trim())
    .filter(entry => entry !== '');
  const entry = forwarded.at(-trustedProxies) ?? forwarded[0] ?? '';
  // Some proxies add the port, which differs for each connection.
  const address = entry.replace(/^\[(.*)\](?::\d+)?$/, '$1').replace(/^([\d.]+):\d+$/, '$1');
  return isIP(address) === 0 ? socket : spelled(address);
}

const mapped = /^::ffff:(?=[\d.]+$)/i;

/** Returns the canonical spelling of an address. An IPv4 address inside an IPv6 address becomes IPv4. */
export function spelled(given: string): string {
  const address = given.replace(mapped, '');
  if (isIP(address) !== 6) return address;
  const [bare = ''] = address.split('%');
  const known = new SocketAddress({ address: bare, family: 'ipv6' }).address;
  return known.replace(mapped, '');
}
