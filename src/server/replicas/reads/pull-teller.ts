import { boundedCache } from '../../../foundation/bounded-cache.ts';
import { createLimiter, type Limiter, rateFor } from '../../../http/index.ts';
import {
  type CountHostedPull,
  mostToldPulls,
  type PullMeter,
  type ToldPull,
  type ToldReply,
} from '../../../http/registry/index.ts';
import { createPullCounter } from '../../../pull/index.ts';
import { LeaderOnly } from './leader-only.ts';

/** Lets the leader count the pulls that this replica answers. Limits are those of the leader. */
export interface PullTeller {
  /** The meter of served names: a pull with a limit waits for the response of the leader. */
  readonly meter: PullMeter;
  readonly countHosted: CountHostedPull;
  /** Asks the leader whether the right to the image of a container token holds. False when no leader answers. */
  mayPull(token: string): Promise<boolean>;
  /** False while pulls wait for a leader that cannot be reached, and no more of them can wait. */
  hasRoom(): boolean;
  /** Sends what waits. Resolves when the leader has it, or does not answer. */
  flush(): Promise<void>;
  close(): void;
}

interface PullTellerDeps {
  /** Sends pulls to the leader. Returns undefined when none answers. */
  readonly send: (pulls: readonly ToldPull[]) => Promise<readonly ToldReply[] | undefined>;
  readonly rates: Parameters<typeof rateFor>[0];
  readonly now?: () => number;
}

// What nobody waits for is gathered.
const gatherMs = 500;
const retryMs = 500;
// Some minutes of a busy site; about 20 MB.
const mostWaiting = 50_000;
/** How long pulls with a limit go on without a leader. Each replica counts by itself meanwhile. */
const alonesMs = 60_000;
const mostRunning = 20_000;
const windowMs = 30_000;

interface Waiting {
  readonly pull: ToldPull;
  /** Called with the response; absent where nobody waits for it. */
  readonly settle?: (reply: ToldReply | undefined) => void;
}

export function createPullTeller(deps: PullTellerDeps): PullTeller {
  const { send, rates, now = () => performance.now() } = deps;
  const counter = createPullCounter(now);
  const remaining = boundedCache<string, NonNullable<ToldReply['headers']>>(mostRunning, {
    ttl: windowMs,
  });
  const alone: Limiter = createLimiter('pulls', now);
  /** Pulls whose clients wait. They go first. */
  const asked: Waiting[] = [];
  /** Pulls that were answered already. */
  const gathered: Waiting[] = [];
  let sending: Promise<void> | undefined;
  let timer: NodeJS.Timeout | undefined;
  // A leader of an older version does not take pulls.
  let reachedAt = Number.NEGATIVE_INFINITY;
  let failedAt = Number.NEGATIVE_INFINITY;
  let isClosed = false;

  const sendNext = async (): Promise<boolean> => {
    const batch = [...asked.splice(0, mostToldPulls)];
    batch.push(...gathered.splice(0, mostToldPulls - batch.length));
    const replies = await send(batch.map(({ pull }) => pull)).catch(() => undefined);
    if (replies) reachedAt = now();
    else failedAt = now();
    const kept: Waiting[] = [];
    for (const [at, waiting] of batch.entries()) {
      if (waiting.settle) waiting.settle(replies?.[at]);
      else if (!replies) kept.push(waiting);
    }
    gathered.unshift(...kept);
    return replies !== undefined;
  };
  const sendAll = async (): Promise<void> => {
    while (asked.length > 0 || gathered.length > 0) {
      if (!(await sendNext()) && asked.length === 0) return;
    }
  };
  const begin = (): Promise<void> => {
    clearTimeout(timer);
    timer = undefined;
    sending ??= sendAll().finally(() => {
      sending = undefined;
      if (asked.length > 0) void begin();
      else if (gathered.length > 0) later(retryMs);
    });
    return sending;
  };
  const later = (ms: number): void => {
    if (!isClosed) timer ??= setTimeout(begin, ms).unref();
  };
  const gather = (pull: ToldPull): void => {
    gathered.push({ pull });
    const isRefused = now() - failedAt < retryMs;
    if (gathered.length >= mostToldPulls && !sending && !isRefused) void begin();
    else later(isRefused ? retryMs : gatherMs);
  };
  const ask = (pull: ToldPull): Promise<ToldReply | undefined> =>
    new Promise(settle => {
      // A leader that hangs would hold up each of them.
      if (now() - failedAt < retryMs) return settle(undefined);
      asked.push({ pull, settle });
      if (!sending) void begin();
    });

  const keyOf = (client: string, token: string) => `${client} ${token}`;

  const meter: PullMeter = {
    admit: (client, { token }) => counter.isRunning(client, token),

    async count(client, request) {
      const { token } = request;
      const limit = rateFor(rates, request.caller, client);
      const pull = { kind: 'served', client, token } as const;
      if (!limit) {
        counter.begin(client, token);
        gather({ ...pull, what: 'done' });
        return;
      }
      const reply = await ask({ ...pull, what: 'pull' });
      if (reply && !reply.isAdmitted) throw new LeaderOnly('it limits the pull');
      if (!reply) {
        if (now() - reachedAt > alonesMs) throw new LeaderOnly('it counts pulls');
        alone.take(limit.key, limit.rate);
        gather({ ...pull, what: 'done' });
      } else if (reply.headers) remaining.set(keyOf(client, token), reply.headers);
      counter.begin(client, token);
    },

    async look(client, request) {
      const { token } = request;
      const limit = rateFor(rates, request.caller, client);
      if (!limit) return;
      const reply = await ask({ kind: 'served', client, token, what: 'look' });
      if (reply && !reply.isAdmitted) throw new LeaderOnly('it limits the pull');
      if (reply?.headers) remaining.set(keyOf(client, token), reply.headers);
      if (!reply) alone.check(limit.key, limit.rate);
    },

    headers: (client, { token }) => remaining.get(keyOf(client, token)) ?? {},
  };

  return {
    meter,
    countHosted: ({ client, isHead, repository, reference, digest }) =>
      gather({ kind: 'hosted', client, isHead, repository, reference, digest }),
    mayPull: async token => (await ask({ kind: 'right', token }))?.isAdmitted === true,
    hasRoom: () => gathered.length < mostWaiting,
    flush: begin,
    close() {
      isClosed = true;
      clearTimeout(timer);
    },
  };
}
