import { totalmem } from 'node:os';
import type { ContainmentOptions } from '../../builds/index.ts';
import { parseReference } from '../../oci/naming.ts';
import type { Registries } from '../../upstream/index.ts';
import type { Config } from '../config/index.ts';

const mostBuildMemory = 8 * 2 ** 30;
// Memory that all builds together leave for the server and the rest of the machine.
const sharedMemory = 0.75;

/** Returns the registries that the builder of Sluice may connect to, and the limits of its builds. */
export function containmentOf(
  { builds: { each, concurrent, privateHosts, builderDisk } }: Config,
  registries: Registries,
): ContainmentOptions {
  // The memory of the machine, or of the container in which the server runs.
  const memory = Math.min(totalmem(), process.constrainedMemory() || Number.POSITIVE_INFINITY);
  const memoryBytes = each.memory ?? Math.min(memory / 2, mostBuildMemory);
  const limits = {
    memoryBytes: Math.floor(memoryBytes),
    processes: each.processes,
    processors: each.processors,
  };
  const together = Math.min(concurrent * memoryBytes, memory * sharedMemory);
  return {
    openHosts: {
      builder: privateRegistries(registries),
      steps: privateHosts,
    },
    each: limits,
    all: {
      memoryBytes: Math.floor(Math.max(memoryBytes, together)),
      processes: concurrent * each.processes,
      processors: each.processors === undefined ? undefined : concurrent * each.processors,
    },
    buildDiskBytes: each.disk,
    stateBytes: builderDisk,
  };
}

/** Returns the listed registries that may be at a private address, each with its port. */
export function privateRegistries(registries: Registries): string[] {
  return [...registries]
    .filter(([, { allowPrivateAddress }]) => allowPrivateAddress)
    .map(([host, { plainHttp }]) => withPort(host, plainHttp ? 80 : 443));
}

/** Returns those of them that builds of anonymous callers require: this server, and the registry of its layer cache. */
export function anonymousReach(
  registries: Registries,
  ownHost: string,
  cache: string | undefined,
): string[] {
  const hosts = [ownHost, ...(cache === undefined ? [] : [parseReference(cache).registry])];
  return privateRegistries(new Map([...registries].filter(([host]) => hosts.includes(host))));
}

function withPort(host: string, port: number): string {
  return /:\d+$/.test(host) ? host : `${host}:${port}`;
}
