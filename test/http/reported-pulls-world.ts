import { Fault } from '../../src/foundation/fault.ts';
import { type CallerRates, createLimiter } from '../../src/http/limits/limiter.ts';
import { createPullMeter } from '../../src/http/registry/pull-meter.ts';
import {
  createTakePulls,
  type ReportedPull,
  readPullReplies,
  readReportedPulls,
} from '../../src/http/registry/reported-pulls.ts';
import { createPullCounter } from '../../src/pull/pull-counter.ts';
import type { ContainerRequest } from '../../src/request/container-request.ts';
import { createPullReporter } from '../../src/server/replicas/reads/pull-reporter.ts';

const rate = { count: 2, seconds: 3600 };
export const usualRates: CallerRates = { anonymous: rate, authenticated: undefined };
export const request = (token: string, user?: string) =>
  ({
    token,
    isMounted: false,
    caller: { address: '', ...(user === undefined ? {} : { user }) },
  }) as unknown as ContainerRequest;

/** Starts a leader and a replica, with a clock that the test sets. */
export function startSite(rates: CallerRates = usualRates) {
  const clock = { now: 1 };
  const now = () => clock.now;
  const counted: string[] = [];
  const hosted: string[] = [];
  const described: string[] = [];
  const get = async (token: string) => {
    if (token === 'ended') throw new Fault('not-found', 'ended');
    if (!site.hasDatabase) throw new Fault('unavailable', 'no database', { phase: 'store' });
    return request(token, token === 'of a user' ? 'ada' : undefined);
  };
  const createLeader = () =>
    createTakePulls({
      tokens: {
        get,
        async describe(token) {
          described.push(token);
          return request(token);
        },
      },
      meter: createPullMeter({
        counter: createPullCounter(now),
        limiter: createLimiter('pulls', now),
        rates,
        usage: { add() {} } as never,
        record: ({ token }) => counted.push(token),
      }),
      countHosted: ({ repository }) => hosted.push(repository),
      async requireRight({ token }) {
        if (token === 'without a right') throw new Fault('denied', 'no right');
        if (token === 'of a slow registry') return new Promise(() => {});
      },
    });
  const messages: (readonly ReportedPull[])[] = [];
  const site = {
    leader: createLeader() as ReturnType<typeof createLeader> | undefined,
    hasDatabase: true,
  };
  const createReplica = () =>
    createPullReporter({
      rates,
      now,
      async send(pulls) {
        messages.push(pulls);
        const sent = readReportedPulls(Buffer.from(JSON.stringify(pulls)));
        const replies = await site.leader?.(sent);
        return replies && readPullReplies(Buffer.from(JSON.stringify(replies)), pulls.length);
      },
    });
  const reporter = createReplica();
  return {
    ...{ clock, counted, hosted, described, messages, site, reporter },
    createLeader,
    createReplica,
  };
}

export type Replica = Pick<ReturnType<typeof startSite>, 'reporter'>;

/** Pulls a name through a replica. Returns what the headers say is left. */
export const pull = async ({ reporter }: Replica, client: string, token: string) => {
  const asked = request(token, token === 'of a user' ? 'ada' : undefined);
  if (!reporter.meter.admit(client, asked)) await reporter.meter.count(client, asked);
  return reporter.meter.headers(client, asked)['ratelimit-remaining'];
};
