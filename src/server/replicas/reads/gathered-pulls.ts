import {
  mostReportedPulls,
  type PullReply,
  type ReportedPull,
} from '../../../http/registry/index.ts';
import { retryMs, type SendPulls } from './leader-requests.ts';

/** Pulls that were answered already: the leader counts them a little later. */
export interface GatheredPulls {
  /** @param settle receives what the leader says; undefined when the pull is given up */
  add(pull: ReportedPull, settle?: (reply: PullReply | undefined) => void): void;
  /** False while pulls wait for a leader that cannot be reached, and no more of them can wait. */
  hasRoom(): boolean;
  /** Sends what waits. Resolves when the leader has it, or does not answer. */
  flush(): Promise<void>;
  close(): void;
}

const gatherMs = 500;
// Some minutes of a busy site; about 20 MB.
const mostWaiting = 50_000;
// A pull that the leader cannot look up, while it takes others.
const mostFailures = 100;

interface Waiting {
  readonly pull: ReportedPull;
  readonly settle: (reply: PullReply | undefined) => void;
  readonly failures: number;
}

export function createGatheredPulls(send: SendPulls, now: () => number): GatheredPulls {
  const waiting: Waiting[] = [];
  /** On their way, and those of them that the leader has not taken. */
  let held: Waiting[] = [];
  let sending: Promise<void> | undefined;
  let timer: NodeJS.Timeout | undefined;
  let keptAt = Number.NEGATIVE_INFINITY;
  let isClosed = false;

  const sendAll = async (): Promise<void> => {
    const kept: Waiting[] = [];
    // Those that wait now, and later ones while the leader takes all.
    let left = waiting.length;
    while (left > 0) {
      const batch = waiting.splice(0, mostReportedPulls);
      held = [...kept, ...batch];
      const replies = await send(batch.map(({ pull }) => pull));
      const refused: Waiting[] = [];
      for (const [at, one] of batch.entries()) {
        const reply = replies?.[at];
        if (reply && !reply.isUnknown) one.settle(reply);
        else refused.push({ ...one, failures: one.failures + 1 });
      }
      if (refused.length === batch.length) {
        // A leader that takes none of them would take none of the others, and they can wait for the next one.
        kept.push(...batch);
        break;
      }
      for (const one of refused) {
        if (one.failures < mostFailures) kept.push(one);
        else one.settle(undefined);
      }
      left = kept.length === 0 ? waiting.length : left - batch.length;
    }
    held = [];
    waiting.push(...kept);
    if (kept.length > 0) keptAt = now();
  };
  const begin = (): Promise<void> => {
    clearTimeout(timer);
    timer = undefined;
    sending ??= sendAll().finally(() => {
      sending = undefined;
      if (waiting.length > 0) later(retryMs);
    });
    return sending;
  };
  const later = (ms: number): void => {
    if (!isClosed) timer ??= setTimeout(begin, ms).unref();
  };
  return {
    add(pull, settle = () => {}) {
      waiting.push({ pull, settle, failures: 0 });
      const isRefused = now() - keptAt < retryMs;
      if (waiting.length >= mostReportedPulls && !sending && !isRefused) void begin();
      else later(isRefused ? retryMs : gatherMs);
    },
    hasRoom: () => waiting.length + held.length < mostWaiting,
    flush: begin,
    close() {
      isClosed = true;
      clearTimeout(timer);
    },
  };
}
