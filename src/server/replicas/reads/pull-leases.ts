import { boundedCache } from '../../../foundation/bounded-cache.ts';
import type { PullReply } from '../../../http/registry/index.ts';

/**
 * Pulls with a limit that this replica answers before it tells the leader. The leader says how many pulls of a caller may be
 * on their way to it (`mayBegin`), with each pull that it counts. So it is asked about the first pull of a caller, and about
 * each one near the limit.
 */
export interface PullLeases {
  /** Takes one pull of a key; undefined when the leader has to be asked. */
  take(key: string): LeasedPull | undefined;
  /** Returns the headers for a request that is only checked; undefined when the leader has to be asked. */
  look(key: string): RateHeaders | undefined;
  /** Notes what the leader has said about a pull of a key. */
  note(key: string, reply: PullReply): void;
}

interface LeasedPull {
  /** The remaining allowance, without what other replicas have taken since. */
  readonly headers: RateHeaders;
  /** Receives what the leader says once it has counted the pull; undefined when it never will. */
  readonly settle: (reply: PullReply | undefined) => void;
}

type RateHeaders = Readonly<Record<string, string>>;

interface Lease {
  reply: PullReply;
  /** When the leader said so (ms). */
  since: number;
  /** Pulls that the leader has not counted yet, also those from before the reply. */
  uncounted: number;
}

const mostKeys = 20_000;
/** Other replicas take from the same allowance, so the leader is asked again after this. */
const leaseMs = 30_000;
const remainingHeader = 'ratelimit-remaining';

/** @param now returns the time (ms) of a monotonic clock */
export function createPullLeases(now: () => number): PullLeases {
  const leases = boundedCache<string, Lease>(mostKeys);

  const find = (key: string): Lease | undefined => {
    const lease = leases.get(key);
    if (!lease || now() - lease.since >= leaseMs) return undefined;
    return lease.uncounted < (lease.reply.mayBegin ?? 0) ? lease : undefined;
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
          if (reply) renew(lease, reply, now());
        },
      };
    },
    look(key) {
      const lease = find(key);
      return lease && headersOf(lease);
    },
    note(key, reply) {
      const lease = leases.get(key);
      if (lease) renew(lease, reply, now());
      else leases.set(key, { reply, since: now(), uncounted: 0 });
    },
  };
}

function renew(lease: Lease, reply: PullReply, since: number): void {
  lease.reply = reply;
  lease.since = since;
}

function headersOf({ reply, uncounted }: Lease): RateHeaders {
  const { headers = {} } = reply;
  const remaining = Math.max(0, Number(headers[remainingHeader] ?? 0) - uncounted);
  return { ...headers, [remainingHeader]: String(remaining) };
}
