import { setTimeout as sleep } from 'node:timers/promises';
import type {
  BuilderWorker,
  BuildkitClient,
  CallOptions,
  UsageRecord,
} from '../../buildkit/index.ts';
import { Fault } from '../../foundation/fault.ts';
import type { TrustDomain } from '../domain.ts';

/**
 * How a builder keeps the domains apart. `shared`: not at all. `prune`: it has the state of one domain at a time, and
 * Sluice prunes everything before another domain uses it. `pod`: like that, but Sluice deletes its pod, and Kubernetes
 * starts a fresh one. `pod-each`: the pod is deleted after every build.
 */
export type Separation = 'shared' | 'prune' | 'pod' | 'pod-each';

/** The label by which a worker says that Sluice alone uses it, with the way in which it is emptied. */
export const wipeLabel = 'sluice.wipe';

const usageMs = 30_000;
const releaseTries = 10;
const releasePauseMs = 200;

/** Returns how a builder with these workers keeps the domains apart. */
export function separationOf(workers: readonly BuilderWorker[]): Separation {
  const kinds = new Set(workers.map(({ labels }) => labels[wipeLabel]));
  const [kind] = kinds;
  return kinds.size === 1 && (kind === 'prune' || kind === 'pod' || kind === 'pod-each')
    ? kind
    : 'shared';
}

/** Returns whether builds of the domain may use a builder. */
export function mayUse(separation: Separation, { callerKind, isAlone }: TrustDomain): boolean {
  return separation !== 'shared' || (callerKind === 'known' && !isAlone);
}

/**
 * Removes the state of a builder. Rejects with a `BuildError` when it does not answer, and with a {@link Fault} (503)
 * when something stays that another domain could get.
 */
export async function empty(client: BuildkitClient, signal: AbortSignal): Promise<void> {
  let left = await stateOf(client, signal);
  for (let tried = 0; left.length > 0 && tried < releaseTries; tried += 1) {
    // The records of a build are in use for a moment after its end.
    if (tried > 0) await sleep(releasePauseMs, undefined, { signal });
    await client.prune({ all: true }, { signal });
    left = await stateOf(client, signal);
  }
  if (!left.some(isReachable)) return;
  const message = 'A builder has files from elsewhere in use that cannot be removed: restart it';
  throw new Fault('unavailable', message, { phase: 'build' });
}

/**
 * Returns whether another domain could get what BuildKit does not release: it holds the results of some cancelled
 * builds until it ends. Results of steps belong to their domain (`domainHosts`), but what the builder has fetched itself
 * is found by its address.
 */
function isReachable({ type, description }: UsageRecord): boolean {
  return type !== 'regular' || /^(?:http|git|bare)\b/i.test(description);
}

function stateOf(client: BuildkitClient, signal: AbortSignal): Promise<UsageRecord[]> {
  return client.diskUsage([], { timeoutMs: usageMs, signal });
}

// A build on an emulated platform takes many times as long. On a missing platform it fails at its first RUN.
const emulatedRank = 1;
const missingRank = 100;

/**
 * Returns how well a builder suits the platforms of a build; 0 is best.
 *
 * @param offered platforms of the builder: native ones first, then emulated ones
 */
export function platformRank(wanted: readonly string[], offered: readonly string[]): number {
  const [own = ''] = offered.map(machineOf);
  const all = new Set(offered.map(machineOf));
  return wanted
    .map(machineOf)
    .map(machine => (machine === own ? 0 : all.has(machine) ? emulatedRank : missingRank))
    .reduce((sum: number, rank) => sum + rank, 0);
}

/** Drops the variant: an amd64 machine lists several. */
function machineOf(platform: string): string {
  return platform.split('/').slice(0, 2).join('/');
}

/**
 * Returns whether a builder can push what it builds. The builder in a Docker engine with the classic image store
 * cannot: it has no `image` exporter. As in `docker buildx`, the properties of its workers identify it. Rejects with a
 * `BuildError` when the builder does not answer.
 */
export async function canPush(client: BuildkitClient, options: CallOptions): Promise<boolean> {
  if (!isInDocker(client.address)) {
    await client.info(options);
    return true;
  }
  const workers = await client.listWorkers(options);
  return workers.some(hasSnapshotter);
}

/** Returns whether the address is that of the builder in a Docker engine. */
export function isInDocker(address: string): boolean {
  return address.startsWith('docker+');
}

function hasSnapshotter({ labels }: BuilderWorker): boolean {
  return 'org.mobyproject.buildkit.worker.snapshotter' in labels;
}
