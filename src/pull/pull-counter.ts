import { boundedCache } from '../foundation/bounded-cache.ts';
import { hostedSubjects } from '../hosted/uploads/index.ts';
import type { Reference } from '../oci/naming.ts';
import type { ContainerRequest } from '../request/index.ts';
import { type ContainerToken, nameIdOfToken } from '../request/tokens/index.ts';
import type { PullSubject } from '../storage/rows/index.ts';

const windowMs = 30_000;
const maxClients = 100_000;

/**
 * Counts pulls, not requests. One pull requests several manifests, often the same one twice: all requests of one client
 * through one token within half a minute are one pull.
 */
export interface PullCounter {
  /** Returns true while a pull of the client is already counted. */
  isRunning(client: string, token: string): boolean;
  /** Returns how long a pull of the client still counts as the same one, ms. 0: it is not counted. */
  leftMs(client: string, token: string): number;
  /** Marks a pull of the client as counted, for half a minute or a shorter time (ms). */
  begin(client: string, token: string, ms?: number): void;
}

export function createPullCounter(now: () => number = () => performance.now()): PullCounter {
  const running = boundedCache<string, true>(maxClients, {
    ttl: windowMs,
    ttlResolution: 0,
    perf: { now },
  });
  const keyOf = (client: string, token: string) => `${client} ${token}`;
  return {
    isRunning: (client, token) => running.has(keyOf(client, token)),
    leftMs: (client, token) => Math.max(0, running.getRemainingTTL(keyOf(client, token))),
    begin(client, token, ms = windowMs) {
      if (ms > 0) running.set(keyOf(client, token), true, { ttl: Math.min(ms, windowMs) });
      else running.delete(keyOf(client, token));
    },
  };
}

/** Returns the subject of pulls through a container token. It contains the hash only: the token gives access. */
export function containerSubject(token: ContainerToken): PullSubject {
  return `container ${nameIdOfToken(token)}` as PullSubject;
}

/** Returns the subjects of a pull through a container token; an image of this server counts as pulled too. */
export function servedSubjects(
  { token, image, fixed }: ContainerRequest,
  ownHost: string,
): PullSubject[] {
  const isHosted = image.registry === ownHost && fixed !== undefined;
  return [
    containerSubject(token),
    ...(isHosted ? hostedSubjects(image.repository, fixed.base.digest, image.tag) : []),
  ];
}

/** Returns the name under which pulls of an image are counted: without tag and digest. */
export function imageName({ registry, repository }: Omit<Reference, 'tag'>): string {
  return `${registry}/${repository}`;
}
