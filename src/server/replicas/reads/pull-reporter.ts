import { boundedCache } from '../../../foundation/bounded-cache.ts';
import {
  type Allowance,
  createLimiter,
  type Limiter,
  limitHeaders,
  rateFor,
} from '../../../http/index.ts';
import type {
  CountHostedPull,
  PullMeter,
  PullReply,
  ReportedPull,
} from '../../../http/registry/index.ts';
import { createPullCounter } from '../../../pull/index.ts';
import { createGatheredPulls, type GatheredPulls } from './gathered-pulls.ts';
import { LeaderOnly } from './leader-only.ts';
import { createLeaderRequests, type SendPulls, type SentReply } from './leader-requests.ts';
import { createPullLeases } from './pull-leases.ts';

/** Lets the leader count the pulls that this replica answers. Limits are those of the leader. */
export interface PullReporter extends Pick<GatheredPulls, 'hasRoom' | 'flush' | 'close'> {
  /** The meter of served names: a pull near its limit waits for the response of the leader. */
  readonly meter: PullMeter;
  readonly countHosted: CountHostedPull;
  /** Asks the leader whether the right to the image of a container token holds. False when no leader answers. */
  mayPull(token: string): Promise<boolean>;
  /** Finds out whether the leader takes pulls, until one does: this replica may count by itself only for a while after that. Call it often. */
  greet(): void;
}

interface PullReporterDeps {
  /** Sends pulls to the leader. Returns undefined when none answers. */
  readonly send: (pulls: readonly ReportedPull[]) => Promise<readonly PullReply[] | undefined>;
  readonly rates: Parameters<typeof rateFor>[0];
  readonly now?: () => number;
}

// How long pulls with a limit go on without a leader. Each replica counts by itself meanwhile.
const longestAloneMs = 60_000;
const greetMs = 1000;
const mostRunning = 20_000;
const windowMs = 30_000;
// Another replica, which asks about the rest of the same pull, is refused if the limit is reached meanwhile.
const leasedMs = 50;
// The leader may ask a registry for a right, and others need not wait for that.
const rightPace = { atOnce: 4, apartMs: 0 };
// For 20 clients at once, a third fewer messages: each costs the leader as much as several pulls in it.
const countPace = { atOnce: 1, apartMs: 3 };

export function createPullReporter(deps: PullReporterDeps): PullReporter {
  const { rates, now = () => performance.now() } = deps;
  const counter = createPullCounter(now);
  const remaining = boundedCache<string, Allowance>(mostRunning, { ttl: windowMs });
  const alone: Limiter = createLimiter('pulls', now);
  // A leader of an older version does not take pulls.
  let hasReached = false;
  /** When the first message failed after the last one that did not. */
  let aloneSince: number | undefined;
  let greetedAt = Number.NEGATIVE_INFINITY;

  const send: SendPulls = async pulls => {
    const sentAt = now();
    const replies = await deps.send(pulls).catch(() => undefined);
    return replies?.map(reply => ({ ...reply, sentAt }));
  };
  const sendCounted: SendPulls = async pulls => {
    const replies = await send(pulls);
    if (replies && !replies.some(({ isUnknown }) => isUnknown)) {
      hasReached = true;
      aloneSince = undefined;
    } else aloneSince ??= now();
    return replies;
  };
  const askCount = createLeaderRequests(sendCounted, countPace, now);
  // Their answers say nothing about the others: a registry that does not answer is no fault of the leader.
  const askRight = createLeaderRequests(send, rightPace, now);
  const gathered = createGatheredPulls(sendCounted, now);
  const leases = createPullLeases(now);

  const keyOf = (client: string, token: string) => `${client} ${token}`;
  const noteAllowance = (client: string, token: string, allowance: Allowance | undefined): void => {
    if (allowance) remaining.set(keyOf(client, token), allowance);
    else remaining.delete(keyOf(client, token));
  };

  /**
   * Returns what the leader says to a pull with a limit; undefined while this replica counts it by itself.
   *
   * @param key of the limit
   */
  const decide = async (
    pull: ReportedPull & { kind: 'served' },
    key: string,
  ): Promise<SentReply | undefined> => {
    const reply = await askCount(pull);
    if (!reply || reply.isUnknown) {
      const isBrief = hasReached && now() - (aloneSince ?? now()) <= longestAloneMs;
      if (!isBrief) throw new LeaderOnly('it counts pulls');
      return undefined;
    }
    const allowance = leases.note(key, reply);
    if (!reply.isAdmitted) throw new LeaderOnly('it limits the pull');
    noteAllowance(pull.client, pull.token, allowance);
    return reply;
  };

  const meter: PullMeter = {
    admit: (client, { token }) => counter.isRunning(client, token),

    async count(client, request) {
      const { token } = request;
      // Others were faster.
      if (counter.isRunning(client, token)) return;
      const limit = rateFor(rates, request.caller, client);
      const pull = { kind: 'served', client, token } as const;
      const lease = limit && leases.take(limit.key);
      if (lease) {
        noteAllowance(client, token, lease.allowance);
      } else if (limit) {
        const asked = now();
        const reply = await decide({ ...pull, what: 'pull' }, limit.key);
        if (reply) {
          // It may have begun at another replica. The time on the way is part of it.
          const { leftMs = windowMs } = reply;
          counter.begin(client, token, leftMs - (now() - asked));
          return;
        }
        alone.take(limit.key, limit.rate);
      }
      const settleLease = lease?.settle;
      const settle = (reply: SentReply | undefined): void => {
        settleLease?.(reply);
        const leftMs = reply?.leftMs ?? windowMs;
        // Another replica was faster: its pull ends earlier.
        if (leftMs < counter.leftMs(client, token)) counter.begin(client, token, leftMs);
      };
      const withinMs = lease && leasedMs;
      gathered.add({ ...pull, what: 'done' }, { settle, withinMs });
      counter.begin(client, token);
    },

    async check(client, request) {
      const { token } = request;
      const limit = rateFor(rates, request.caller, client);
      if (!limit) return;
      const lease = leases.check(limit.key);
      if (lease) {
        noteAllowance(client, token, lease.allowance);
        return;
      }
      const reply = await decide({ kind: 'served', client, token, what: 'look' }, limit.key);
      if (!reply) alone.check(limit.key, limit.rate);
    },

    headers(client, { token }) {
      const allowance = remaining.get(keyOf(client, token));
      return allowance ? limitHeaders(allowance) : {};
    },
  };

  return {
    ...gathered,
    meter,
    countHosted: ({ client, isHead, repository, reference, digest }) =>
      gathered.add({ kind: 'hosted', client, isHead, repository, reference, digest }),
    mayPull: async token => (await askRight({ kind: 'right', token }))?.isAdmitted === true,
    greet() {
      const isReached = hasReached && aloneSince === undefined;
      if (isReached || now() - greetedAt < greetMs) return;
      greetedAt = now();
      void sendCounted([]);
    },
  };
}
