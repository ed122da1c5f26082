import { mostReportedPulls, type ReportedPull } from '../../../http/registry/index.ts';
import { retryMs, type SendPulls, type SentReply } from './leader-requests.ts';

/** Pulls that were answered already: the leader counts them a little later. */
export interface GatheredPulls {
  add(pull: ReportedPull, options?: GatherOptions): void;
  /** False while pulls wait for a leader that cannot be reached, and no more of them can wait. */
  hasRoom(): boolean;
  /** Sends what waits. Resolves when the leader has it, or does not answer. */
  flush(): Promise<void>;
  close(): void;
}

interface GatherOptions {
  /** Receives what the leader says; undefined when the pull is given up. */
  readonly settle?: ((reply: SentReply | undefined) => void) | undefined;
  /** When it is sent at the latest, ms. */
  readonly withinMs?: number | undefined;
}

const gatherMs = 500;
// Some minutes of a busy site; up to 50 MB with all that belongs to them.
const mostWaiting = 50_000;
// A pull that the leader cannot look up, while it takes others.
const mostFailures = 100;

interface Waiting {
  readonly pull: ReportedPull;
  readonly settle: GatherOptions['settle'];
  readonly failures: number;
}

export function createGatheredPulls(send: SendPulls, now: () => number): GatheredPulls {
  const waiting: Waiting[] = [];
  /** On their way, and those of them that the leader has not taken. */
  let held: Waiting[] = [];
  let sending: Promise<void> | undefined;
  let timer: NodeJS.Timeout | undefined;
  let dueAt = Number.POSITIVE_INFINITY;
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
        if (reply && !reply.isUnknown) one.settle?.(reply);
        else refused.push({ ...one, failures: one.failures + 1 });
      }
      if (refused.length === batch.length) {
        // A leader that takes none of them would take none of the others, and they can wait for the next one.
        kept.push(...batch);
        break;
      }
      for (const one of refused) {
        if (one.failures < mostFailures) kept.push(one);
        else one.settle?.(undefined);
      }
      left = kept.length === 0 ? waiting.length : left - batch.length;
    }
    held = [];
    waiting.push(...kept);
    if (kept.length > 0) keptAt = now();
  };
  const begin = (): Promise<void> => {
    clearTimeout(timer);
    dueAt = Number.POSITIVE_INFINITY;
    sending ??= sendAll().finally(() => {
      sending = undefined;
      if (waiting.length > 0) later(retryMs);
    });
    return sending;
  };
  const later = (ms: number): void => {
    if (isClosed || now() + ms >= dueAt) return;
    clearTimeout(timer);
    dueAt = now() + ms;
    timer = setTimeout(begin, ms).unref();
  };
  return {
    add(pull, { settle, withinMs = gatherMs } = {}) {
      waiting.push({ pull, settle, failures: 0 });
      const isRefused = now() - keptAt < retryMs;
      const isFull = waiting.length >= mostReportedPulls && !sending && !isRefused;
      // A request that was under way when the replica took the lead or stopped.
      if (isFull || isClosed) void begin();
      else later(isRefused ? retryMs : withinMs);
    },
    hasRoom: () => waiting.length + held.length < mostWaiting,
    flush: begin,
    close() {
      isClosed = true;
      clearTimeout(timer);
    },
  };
}
