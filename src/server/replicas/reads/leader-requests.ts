import { setTimeout as sleep } from 'node:timers/promises';
import {
  mostReportedPulls,
  type PullReply,
  type ReportedPull,
} from '../../../http/registry/index.ts';

/** What the leader says, with the time (ms) at which the message was sent. */
export interface SentReply extends PullReply {
  readonly sentAt: number;
}

/** Sends pulls to the leader. Returns undefined when none answers. Never rejects. */
export type SendPulls = (
  pulls: readonly ReportedPull[],
) => Promise<readonly SentReply[] | undefined>;

/** How long nothing is asked after a message that the leader did not answer, ms. Each one may wait for seconds. */
export const retryMs = 500;

export interface Pace {
  /** Messages on their way at once. */
  readonly atOnce: number;
  /** Least time between the beginnings of two messages, ms: pulls gather meanwhile. */
  readonly apartMs: number;
}

interface WaitingPull {
  readonly pull: ReportedPull;
  readonly settle: (reply: SentReply | undefined) => void;
}

/**
 * Returns a function that asks the leader about a pull, for a client that waits. Requests that arrive while messages are on their way
 * share the next one. Returns undefined when the leader does not answer.
 */
export function createLeaderRequests(
  send: SendPulls,
  { atOnce, apartMs }: Pace,
  now: () => number,
): (pull: ReportedPull) => Promise<SentReply | undefined> {
  const waiting: WaitingPull[] = [];
  let sending = 0;
  let sentAt = Number.NEGATIVE_INFINITY;
  let failedAt = Number.NEGATIVE_INFINITY;

  const sendNext = async (): Promise<void> => {
    const batch = waiting.splice(0, mostReportedPulls);
    const replies = await send(batch.map(({ pull }) => pull));
    if (!replies) {
      failedAt = now();
      batch.push(...waiting.splice(0));
    }
    for (const [at, { settle }] of batch.entries()) settle(replies?.[at]);
  };
  const sendAll = async (): Promise<void> => {
    sending += 1;
    while (waiting.length > 0) {
      const pauseMs = sentAt + apartMs - now();
      if (pauseMs > 0) await sleep(pauseMs);
      // Another message may have taken all of them.
      if (waiting.length === 0) break;
      sentAt = now();
      await sendNext();
    }
    sending -= 1;
  };
  return pull =>
    new Promise(settle => {
      if (now() - failedAt < retryMs) return settle(undefined);
      waiting.push({ pull, settle });
      if (sending < atOnce) void sendAll();
    });
}
