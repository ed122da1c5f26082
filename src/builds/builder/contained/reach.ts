import { lookup } from 'node:dns/promises';
import { isIP } from 'node:net';
import { networkInterfaces } from 'node:os';
import type { OpenAddress, Reach } from './network-rules.ts';

/** Hosts, such as `registry.example.com:5000`, that are open although their addresses are closed. */
export interface OpenHosts {
  readonly builder: readonly string[];
  /** Also open to the builder. */
  readonly steps: readonly string[];
}

/** Returns the current addresses of these hosts, and the machine's own. Omits names without an address. */
export async function findReach({ builder, steps }: OpenHosts): Promise<Reach> {
  return reachOf(await addressesOf(builder), await addressesOf(steps));
}

/** Like {@link findReach}, but synchronous and without names. */
export function literalReach({ builder, steps }: OpenHosts): Reach {
  const literals = (hosts: readonly string[]) =>
    hosts.map(parseHost).filter(({ address }) => isIP(address) === 4);
  return reachOf(literals(builder), literals(steps));
}

function reachOf(builder: readonly OpenAddress[], steps: readonly OpenAddress[]): Reach {
  const machine = Object.values(networkInterfaces()).flatMap(entries =>
    (entries ?? []).map(({ address }) => address),
  );
  return { builder: distinct([...builder, ...steps]), steps: distinct(steps), machine };
}

async function addressesOf(hosts: readonly string[]): Promise<OpenAddress[]> {
  const found: OpenAddress[] = [];
  // One at a time: each lookup takes a thread from the pool that also reads files.
  for (const { address: host, port } of hosts.map(parseHost)) {
    const addresses = isIP(host) === 4 ? [host] : await resolve(host);
    found.push(...addresses.map(address => ({ address, port })));
  }
  return found;
}

function parseHost(text: string): OpenAddress {
  const [, address = '', port] = /^(.*?)(?::(\d+))?$/.exec(text) ?? [];
  return { address, port: port === undefined ? undefined : Number(port) };
}

async function resolve(host: string): Promise<string[]> {
  if (host.startsWith('[')) return [];
  try {
    const found = await lookup(host, { all: true, family: 4 });
    return found.map(({ address }) => address).sort();
  } catch {
    return [];
  }
}

function distinct(entries: readonly OpenAddress[]): OpenAddress[] {
  const byKey = new Map(entries.map(entry => [`${entry.address} ${entry.port}`, entry]));
  return [...byKey.values()];
}
