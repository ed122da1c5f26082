import { mostToldPulls, type ToldPull, type ToldReply } from '../../../http/registry/index.ts';
import { retryMs, type SendPulls } from './leader-questions.ts';

/** Pulls that were answered already: the leader counts them a little later. */
export interface GatheredPulls {
  add(pull: ToldPull): void;
  /** False while pulls wait for a leader that cannot be reached, and no more of them can wait. */
  hasRoom(): boolean;
  /** Sends what waits. Resolves when the leader has it, or does not answer. */
  flush(): Promise<void>;
  close(): void;
}

const gatherMs = 500;
// Some minutes of a busy site; about 20 MB.
const mostWaiting = 50_000;

/** @param onReply receives what the leader says to each pull that it has taken */
export function createGatheredPulls(
  send: SendPulls,
  onReply: (pull: ToldPull, reply: ToldReply) => void,
  now: () => number,
): GatheredPulls {
  const waiting: ToldPull[] = [];
  /** On their way, and those of them that the leader has not taken. */
  let held: ToldPull[] = [];
  let sending: Promise<void> | undefined;
  let timer: NodeJS.Timeout | undefined;
  let keptAt = Number.NEGATIVE_INFINITY;
  let isClosed = false;

  const sendAll = async (): Promise<void> => {
    const kept: ToldPull[] = [];
    // Those that wait now, and later ones while the leader takes all.
    let left = waiting.length;
    while (left > 0) {
      const batch = waiting.splice(0, mostToldPulls);
      held = [...kept, ...batch];
      const replies = await send(batch);
      for (const [at, pull] of batch.entries()) {
        const reply = replies?.[at];
        if (reply && !reply.isUnknown) onReply(pull, reply);
        else kept.push(pull);
      }
      if (!replies) break;
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
    add(pull) {
      waiting.push(pull);
      const isRefused = now() - keptAt < retryMs;
      if (waiting.length >= mostToldPulls && !sending && !isRefused) void begin();
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
