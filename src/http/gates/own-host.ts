import type { IncomingMessage } from 'node:http';
import { BlockList, isIP } from 'node:net';
import { networkInterfaces } from 'node:os';
import { Fault } from '../../foundation/fault.ts';
import { spelled } from '../client-address.ts';
import { type Check, stateOf } from '../request-state.ts';

/** The hosts that a server answers to. */
export interface OwnHosts {
  /** Names and addresses. */
  readonly names: readonly string[];
  /** Networks whose addresses count as its own, such as `10.0.0.0/16`. */
  readonly networks: readonly string[];
  /** True if the server listens on all addresses of its machine. */
  readonly hasAllAddresses: boolean;
}

/** Returns why a server does not answer to the host that a request names; undefined if it does. */
export type HostCheck = (request: IncomingMessage, target?: string) => Fault | undefined;

// Source: RFC 3986, section 3.2.2, without percent-encoding. An address in IPv6 has brackets.
const authorityPattern = /^(?:\[([\da-f:.]{2,45})\]|([\w.~!$&'()*+,;=-]{1,255}))(?::\d{0,5})?$/i;
const absoluteTarget = /^https?:\/\/([^/?]*)/i;
const loopback = ['localhost', '127.0.0.1', '::1'];
const mostAccepted = 100;
const addressesMs = 10_000;

/**
 * Returns the check of the host that a request names: `Host`, or the authority of a target in absolute form. Without the check, a
 * web page whose name changes to the address of this server (DNS rebinding) could read what needs no login. A host that
 * is an address is safe from that, and only those of this machine are its own.
 * Source: RFC 9110, sections 7.2, 7.4 and 15.5.20; RFC 9112, section 3.2.
 */
export function createHostCheck({ names, networks, hasAllAddresses }: OwnHosts): HostCheck {
  const own = new Set([...loopback, ...names].map(keyOf));
  const ownNetworks = networksOf(networks);
  const addresses = hasAllAddresses ? createMachineAddresses() : () => new Set<string>();
  /** Names as clients wrote them, with their port: one lookup for each request. */
  const accepted = new Set<string>();

  const isOwn = (host: string, request: IncomingMessage): boolean => {
    const key = keyOf(host);
    if (own.has(key)) return true;
    const version = isIP(key);
    if (version === 0) return false;
    return (
      spelled(request.socket.localAddress ?? '') === key ||
      ownNetworks.check(key, version === 6 ? 'ipv6' : 'ipv4') ||
      addresses().has(key)
    );
  };

  return (request, target = request.url ?? '') => {
    const { headers, rawHeaders, httpVersion } = request;
    // Another replica has checked it. Its own address is not one of this server.
    if (stateOf(request).handedOn) return undefined;
    const isAbsolute = !target.startsWith('/');
    const authority = (isAbsolute && absoluteTarget.exec(target)?.[1]) || headers.host;
    if (hasTwoHosts(rawHeaders)) return malformed('The request has more than one Host header');
    if (headers.host === undefined && httpVersion !== '1.0')
      return malformed('The request has no Host header');
    // Clients of HTTP/1.0, such as probes of balancers, name no host. Browsers always do.
    if (authority === undefined || accepted.has(authority)) return undefined;
    const [, address, name = address] = authorityPattern.exec(authority) ?? [];
    if (name === undefined || (address !== undefined && isIP(address) !== 6)) {
      return malformed('The Host header is not a host with an optional port');
    }
    if (!isOwn(name, request)) return misdirected(name);
    // An address may belong to another machine later.
    if (isIP(name) === 0) {
      if (accepted.size >= mostAccepted) accepted.clear();
      accepted.add(authority);
    }
    return undefined;
  };
}

/** Rejects requests for other hosts, before anything else sees them. */
export function requireOwnHost(check: HostCheck): Check {
  return ({ req, originalUrl }) => {
    const fault = check(req, originalUrl);
    if (fault) throw fault;
  };
}

function misdirected(name: string): Fault {
  return new Fault(
    'misdirected',
    `This server does not answer to the host '${name}': use the address that its operator has given you. The operator can add the host to 'hosts' (SLUICE_HOSTS)`,
    { phase: 'request' },
  );
}

function malformed(what: string): Fault {
  return new Fault('bad-request', `${what}: send one, such as 'Host: registry.example.com:5000'`, {
    phase: 'request',
  });
}

/** Node keeps the first one of several. */
function hasTwoHosts(raw: readonly string[]): boolean {
  let count = 0;
  for (let at = 0; at < raw.length; at += 2) {
    const name = raw[at] as string;
    if (name.length === 4 && name.toLowerCase() === 'host') count += 1;
  }
  return count > 1;
}

/** Returns one spelling of each name and address. A dot at the end of a name means the same name. */
function keyOf(host: string): string {
  return isIP(host) === 0 ? host.toLowerCase().replace(/\.$/, '') : spelled(host);
}

function networksOf(networks: readonly string[]): BlockList {
  const list = new BlockList();
  for (const network of networks) {
    const [address = '', prefix] = network.split('/');
    list.addSubnet(address, Number(prefix), isIP(address) === 6 ? 'ipv6' : 'ipv4');
  }
  return list;
}

/** Returns a function that lists the addresses of this machine. They change while the server runs. */
function createMachineAddresses(): () => ReadonlySet<string> {
  let known: ReadonlySet<string> = new Set();
  let until = Number.NEGATIVE_INFINITY;
  return () => {
    const now = performance.now();
    if (now < until) return known;
    until = now + addressesMs;
    const found = Object.values(networkInterfaces()).flatMap(list => list ?? []);
    known = new Set(found.map(({ address }) => spelled(address)));
    return known;
  };
}
