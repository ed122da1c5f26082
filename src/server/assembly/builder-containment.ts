import { totalmem } from 'node:os';
import type { ContainmentOptions } from '../../builds/builder/contained/containment.ts';
import type { Registries } from '../../upstream/registry-settings.ts';
import type { Config } from '../config/settings-schema.ts';

const mostStepMemory = 8 * 2 ** 30;
// What all steps together leave to the server and the rest of the machine.
const sharedMemory = 0.75;

/** Returns what the builder that Sluice starts may reach and use: the listed registries, and the limits as configured. */
export function containmentOf(
  { builds: { step, concurrent, privateHosts, builderDisk } }: Config,
  registries: Registries,
): ContainmentOptions {
  // The machine's, or what a container that the server runs in may use.
  const memory = Math.min(totalmem(), process.constrainedMemory() || Number.POSITIVE_INFINITY);
  const memoryBytes = step.memory ?? Math.min(memory / 2, mostStepMemory);
  const limits = {
    memoryBytes: Math.floor(memoryBytes),
    processes: step.processes,
    processors: step.processors,
  };
  const together = Math.min(concurrent * memoryBytes, memory * sharedMemory);
  return {
    openHosts: {
      builder: privateRegistries(registries),
      steps: privateHosts,
    },
    step: limits,
    all: {
      memoryBytes: Math.floor(Math.max(memoryBytes, together)),
      processes: concurrent * step.processes,
      processors: step.processors === undefined ? undefined : concurrent * step.processors,
    },
    stepDiskBytes: step.disk,
    stateBytes: builderDisk,
  };
}

/** Returns the listed registries that may be at a closed address, each with its port. */
export function privateRegistries(registries: Registries): string[] {
  return [...registries]
    .filter(([, { allowPrivateAddress }]) => allowPrivateAddress)
    .map(([host, { plainHttp }]) => withPort(host, plainHttp ? 80 : 443));
}

function withPort(host: string, port: number): string {
  return /:\d+$/.test(host) ? host : `${host}:${port}`;
}
