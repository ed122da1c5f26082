import type { LookupAddress } from 'node:dns';
import { BlockList, isIP, type LookupFunction } from 'node:net';
import { Fault } from '../../foundation/fault.ts';
import { createNames, type Names } from './names.ts';

const shared = createNames();

/**
 * Closed networks of IPv4, with the length of their prefix: loopback, private, link-local (including cloud metadata),
 * carrier-grade NAT, benchmarking, documentation, multicast, reserved. Source: IANA special-purpose address registries
 * (RFC 6890).
 */
export const closedNetworks = [
  ['0.0.0.0', 8],
  ['10.0.0.0', 8],
  ['100.64.0.0', 10],
  ['127.0.0.0', 8],
  ['169.254.0.0', 16],
  ['172.16.0.0', 12],
  ['192.0.0.0', 24],
  ['192.0.2.0', 24],
  ['192.168.0.0', 16],
  ['198.18.0.0', 15],
  ['198.51.100.0', 24],
  ['203.0.113.0', 24],
  ['224.0.0.0', 4],
  ['240.0.0.0', 4],
] as const;
const closed = new BlockList();
for (const [network, prefix] of closedNetworks) closed.addSubnet(network, prefix, 'ipv4');

// In IPv6 only global unicast is open, except ranges that embed an IPv4 address or are for documentation.
const openV6 = new BlockList();
openV6.addSubnet('2000::', 3, 'ipv6');
const closedV6 = new BlockList();
for (const [network, prefix] of [
  ['2001::', 23],
  ['2001:db8::', 32],
  ['2002::', 16],
  ['3fff::', 20],
] as const) {
  closedV6.addSubnet(network, prefix, 'ipv6');
}

/** True for an address on the public internet; `address` is an IPv4 or IPv6 literal without brackets. */
export function isPublicAddress(address: string): boolean {
  const plain = address.replace(/%.*/s, '');
  switch (isIP(plain)) {
    case 4:
      return !closed.check(plain, 'ipv4');
    case 6:
      return openV6.check(plain, 'ipv6') && !closedV6.check(plain, 'ipv6');
    default:
      return false;
  }
}

/** Says which hosts may be reached although their address is not public. */
export type PrivateHosts = (host: string) => boolean;

/** Throws a {@link Fault} when the URL's host is a literal closed address and the host is not allowed. */
export function checkAddress(url: URL, isAllowed: PrivateHosts): void {
  const literal = withoutBrackets(url);
  if (isIP(literal) !== 0 && !isPublicAddress(literal) && !isAllowed(url.host)) {
    throw closedAddress(url.host);
  }
}

/**
 * Returns a DNS lookup that fails when any address of the name is closed. The connection itself uses this lookup, so
 * it connects to the address that was checked: a name cannot change in between.
 */
export function guardedLookup(host: string, names: Names = shared): LookupFunction {
  return lookupIn(names, addresses => {
    if (addresses.some(({ address }) => !isPublicAddress(address))) throw closedAddress(host);
  });
}

/** Returns a DNS lookup with its own turns, for hosts that may have any address. @param check throws for addresses that are refused */
export function lookupIn(
  names: Names,
  check: (addresses: readonly LookupAddress[]) => void = () => {},
): LookupFunction {
  return (hostname, options, callback) => {
    // An exception in the callback must not reject the promise.
    const respond: typeof callback = (...results) => process.nextTick(callback, ...results);
    names.addressesOf(hostname).then(
      found => {
        try {
          check(found);
        } catch (error) {
          return respond(error as NodeJS.ErrnoException, '', 0);
        }
        const wanted = Number(String(options.family ?? 0).replace('IPv', ''));
        const addresses = found.filter(({ family }) => wanted === 0 || family === wanted);
        const [first] = addresses;
        if (!first) return respond(new Error(`'${hostname}' has no IPv${wanted} address`), '', 0);
        if (options.all) return respond(null, addresses);
        respond(null, first.address, first.family);
      },
      error => respond(error, '', 0),
    );
  };
}

/**
 * Rejects with a {@link Fault} when a host name has a closed address. A name without an address is left to other
 * checks.
 */
export async function checkName(url: URL): Promise<void> {
  const addresses = await shared.addressesOf(withoutBrackets(url)).catch(() => []);
  if (addresses.some(({ address }) => !isPublicAddress(address))) throw closedAddress(url.host);
}

/**
 * Returns an address of the URL's host, preferably IPv4. Rejects with a {@link Fault} when any of its addresses is
 * closed, and with the error of the lookup when there is none.
 */
export async function publicAddressOf(url: URL, names: Names = shared): Promise<string> {
  const hostname = withoutBrackets(url);
  const addresses = await names.addressesOf(hostname);
  if (addresses.some(({ address }) => !isPublicAddress(address))) throw closedAddress(url.host);
  const first = addresses.find(({ family }) => family === 4) ?? addresses[0];
  return first?.address ?? hostname;
}

function withoutBrackets({ hostname }: URL): string {
  return hostname.replace(/[[\]]/g, '');
}

/** A rejected address. */
class ClosedAddress extends Fault {}

/** Returns the rejected address among an error and its causes; undefined if there is none. */
export function closedAddressIn(error: unknown): ClosedAddress | undefined {
  let current = error;
  for (let depth = 0; depth < 8 && current instanceof Error; depth += 1) {
    if (current instanceof ClosedAddress) return current;
    current = current instanceof AggregateError ? current.errors[0] : current.cause;
  }
  return undefined;
}

function closedAddress(host: string): ClosedAddress {
  return new ClosedAddress(
    'bad-request',
    `'${host}' is at a loopback, private or otherwise closed network address, which is refused: the operator can allow it with registries.${host}.allowPrivateAddress`,
    { phase: 'upstream' },
  );
}
