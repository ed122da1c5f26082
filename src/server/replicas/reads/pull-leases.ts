import { boundedCache } from '../../../foundation/bounded-cache.ts';
import type { Allowance } from '../../../http/index.ts';
import type { SentReply } from './leader-requests.ts';

/**
 * Pulls with a limit that this replica answers before the leader has counted them. With each pull that it counts, the leader says
 * how many others of the caller it need not know yet. It is asked about the first pull of a caller, about one that comes while so
 * many are on their way, and about each one near the limit.
 */
export interface PullLeases {
  /** Takes one pull of a key; undefined when the leader has to be asked. */
  take(key: string): LeasedPull | undefined;
  /** Finds the remaining allowance for a request that is only checked; undefined when the leader has to be asked. */
  check(key: string): KnownAllowance | undefined;
  /** Notes the reply of the leader to a pull of a key. Returns the remaining allowance; undefined when the reply has none. */
  note(key: string, reply: SentReply): Allowance | undefined;
}

interface KnownAllowance {
  /** The remaining allowance, without the pulls that other replicas have counted since. A leader of an older version does not send it. */
  readonly allowance: Allowance | undefined;
}

interface LeasedPull extends KnownAllowance {
  /** Receives what the leader says once it has counted the pull; undefined when it never will. */
  readonly settle: (reply: SentReply | undefined) => void;
}

interface Lease {
  mostUncounted: number;
  allowance: Allowance | undefined;
  /** When the message was sent to which the leader said so (ms). */
  sentAt: number;
  /** Pulls that the leader has not counted yet, also those from before the message. */
  uncounted: number;
}

const mostKeys = 20_000;
/** Other replicas take from the same allowance, so the leader is asked again after this. */
const leaseMs = 10_000;

/** @param now returns the time (ms) of a monotonic clock */
export function createPullLeases(now: () => number): PullLeases {
  const leases = boundedCache<string, Lease>(mostKeys);

  const find = (key: string): Lease | undefined => {
    const lease = leases.get(key);
    if (!lease || now() - lease.sentAt >= leaseMs) return undefined;
    return lease.uncounted < lease.mostUncounted ? lease : undefined;
  };
  return {
    take(key) {
      const lease = find(key);
      if (!lease) return undefined;
      lease.uncounted += 1;
      return {
        allowance: allowanceOf(lease),
        settle(reply) {
          lease.uncounted -= 1;
          if (reply) renew(lease, reply);
        },
      };
    },
    check(key) {
      const lease = find(key);
      return lease && { allowance: allowanceOf(lease) };
    },
    note(key, reply) {
      const lease = leases.get(key) ?? {
        mostUncounted: 0,
        allowance: undefined,
        sentAt: Number.NEGATIVE_INFINITY,
        uncounted: 0,
      };
      leases.set(key, lease);
      renew(lease, reply);
      return allowanceOf(lease);
    },
  };
}

/** Of replies that arrive in another order than their messages were sent, the last message counts, and in it what allows least. */
function renew(lease: Lease, { mostUncounted = 0, allowance, sentAt }: SentReply): void {
  const isOlder = sentAt < lease.sentAt;
  if (isOlder || (sentAt === lease.sentAt && mostUncounted > lease.mostUncounted)) return;
  lease.mostUncounted = mostUncounted;
  lease.allowance = allowance;
  lease.sentAt = sentAt;
}

function allowanceOf({ allowance, uncounted }: Lease): Allowance | undefined {
  return allowance && { ...allowance, remaining: Math.max(0, allowance.remaining - uncounted) };
}
