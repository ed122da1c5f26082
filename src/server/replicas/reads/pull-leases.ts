import { boundedCache } from '../../../foundation/bounded-cache.ts';
import type { SentReply } from './leader-requests.ts';

/**
 * Pulls with a limit that this replica answers before the leader has counted them. With each pull that it counts, the leader says
 * how many others of the caller it need not know yet. It is asked about the first pull of a caller, about one that comes while so
 * many are on their way, and about each one near the limit.
 */
export interface PullLeases {
  /** Takes one pull of a key; undefined when the leader has to be asked. */
  take(key: string): LeasedPull | undefined;
  /** Returns the headers for a request that is only checked; undefined when the leader has to be asked. */
  check(key: string): RateHeaders | undefined;
  /** Notes what the leader has said about a pull of a key. Returns the headers with the remaining allowance. */
  note(key: string, reply: SentReply): RateHeaders;
}

interface LeasedPull {
  /** The remaining allowance, without what other replicas have taken since the leader said it. */
  readonly headers: RateHeaders;
  /** Receives what the leader says once it has counted the pull; undefined when it never will. */
  readonly settle: (reply: SentReply | undefined) => void;
}

type RateHeaders = Readonly<Record<string, string>>;

interface Lease {
  mostUncounted: number;
  headers: RateHeaders;
  /** When the message was sent to which the leader said so (ms). */
  sentAt: number;
  /** Pulls that the leader has not counted yet, also those from before the message. */
  uncounted: number;
}

const mostKeys = 20_000;
/** Other replicas take from the same allowance, so the leader is asked again after this. */
const leaseMs = 10_000;
const remainingHeader = 'ratelimit-remaining';

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
        headers: headersOf(lease),
        settle(reply) {
          lease.uncounted -= 1;
          if (reply) renew(lease, reply);
        },
      };
    },
    check(key) {
      const lease = find(key);
      return lease && headersOf(lease);
    },
    note(key, reply) {
      const lease = leases.get(key) ?? {
        mostUncounted: 0,
        headers: {},
        sentAt: Number.NEGATIVE_INFINITY,
        uncounted: 0,
      };
      leases.set(key, lease);
      renew(lease, reply);
      return headersOf(lease);
    },
  };
}

/** Of replies that arrive in another order than their messages were sent, the last message counts, and in it what allows least. */
function renew(lease: Lease, { mostUncounted = 0, headers = {}, sentAt }: SentReply): void {
  const isOlder = sentAt < lease.sentAt;
  if (isOlder || (sentAt === lease.sentAt && mostUncounted > lease.mostUncounted)) return;
  lease.mostUncounted = mostUncounted;
  lease.headers = headers;
  lease.sentAt = sentAt;
}

function headersOf({ headers, uncounted }: Lease): RateHeaders {
  const remaining = headers[remainingHeader];
  if (remaining === undefined) return headers;
  return { ...headers, [remainingHeader]: String(Math.max(0, Number(remaining) - uncounted)) };
}
