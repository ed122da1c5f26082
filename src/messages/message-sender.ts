import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from '../foundation/telemetry/index.ts';
import { unlessAborted } from '../foundation/work.ts';
import type { MessageRow, MessageStore } from '../storage/rows/index.ts';
import { type Delivery, NotDelivered } from './send-webhook.ts';

/** What became of messages, for metrics. */
export type MessageResult = 'sent' | 'failed' | 'dead' | 'dropped';
export type NoteMessages = (target: string, result: MessageResult, count?: number) => void;

export interface MessageSenderDeps {
  readonly store: Pick<
    MessageStore,
    'due' | 'leastTried' | 'remove' | 'fail' | 'trim' | 'trimDead'
  >;
  readonly deliveries: readonly Delivery[];
  /** Returns false while another server may change the rows, and sends the messages. */
  readonly isCurrent: () => boolean;
  /** Attempts per message. */
  readonly attempts: number;
  /** Maximum number of messages that are kept for each receiver, and of those of which no attempt is left. */
  readonly maxMessages: number;
  readonly note: NoteMessages;
  readonly log: Logger;
  /** How often a receiver without messages is looked at (ms). */
  readonly pollMs?: number;
  /** The pause after a first failure (ms); it doubles with each further one. */
  readonly firstPauseMs?: number;
  /** Returns the time in ms since the epoch. */
  readonly now?: () => number;
}

const usualPollMs = 1000;
const usualFirstPauseMs = 1000;
/** The longest time between two attempts to send one message (ms). */
const longestWaitMs = 3_600_000;
// A receiver that does not answer is asked this often, with one message after the other.
const longestPauseMs = 60_000;
const mostAtOnce = 32;
const longestBatchMs = 1000;
const longestError = 500;

/**
 * Sends the messages in the rows: to each receiver one at a time, in turns between those whose events they are. A message that fails waits longer each
 * time, and those behind it go on; where the receiver does not work, they wait with it. Messages are sent at least once: a process that ends between a response and the removal
 * of the row sends the message again, with the same id.
 */
export function startMessageSender(deps: MessageSenderDeps): { close(): Promise<void> } {
  const { store, deliveries, isCurrent, attempts, maxMessages, note, log, now = Date.now } = deps;
  const { pollMs = usualPollMs, firstPauseMs = usualFirstPauseMs } = deps;
  const stop = new AbortController();
  const { signal } = stop;

  const noteFailure = async (message: MessageRow, error: unknown): Promise<void> => {
    const { id, target, kind } = message;
    const failures = message.attempts + 1;
    const isOver =
      failures >= attempts || (error instanceof NotDelivered && error.blame === 'never');
    const at = now();
    const waitMs = doubled(firstPauseMs, failures, longestWaitMs);
    const why = error instanceof NotDelivered ? error.message : 'The message could not be sent';
    await store.fail(id, {
      at,
      nextAt: isOver ? undefined : at + waitMs,
      error: why.slice(0, longestError),
    });
    note(target, isOver ? 'dead' : 'failed');
    if (!isOver) return;
    log.error(
      { target, kind, message: id, why },
      'a message could not be sent, and no attempt is left: sluice messages resend sends it again',
    );
  };

  /** Sends messages that are due. Returns how many there were, and the number of failures in a row. */
  const sendDue = async (delivery: Delivery, failuresBefore: number) => {
    const { name } = delivery;
    let failures = failuresBefore;
    // After a failure, one message shows whether the receiver is back: one that may not be the reason.
    const rows =
      failures > 0
        ? await store.leastTried(name, now(), longestWaitMs)
        : await store.due(name, now(), longestWaitMs, mostAtOnce);
    const found = rows.length;
    const until = performance.now() + longestBatchMs;
    for (const message of rows) {
      if (signal.aborted || !isCurrent()) return { found, failures };
      // A message that was written since may be the next one.
      if (performance.now() > until) break;
      try {
        // A stop does not wait for the system, which looks names up as long as it likes.
        await unlessAborted(delivery.send(message), signal);
      } catch (error) {
        // The stop has closed the connection.
        if (signal.aborted) return { found, failures };
        if (error instanceof NotDelivered && error.blame !== 'receiver') {
          await noteFailure(message, error);
          failures = 0;
          continue;
        }
        failures += 1;
        if (failures === 1) {
          const why = error instanceof NotDelivered ? error.message : undefined;
          log.warn(
            { target: name, why, ...(why === undefined ? { err: error } : {}) },
            'a receiver of messages fails: its messages wait and are sent again',
          );
        }
        await noteFailure(message, error);
        return { found, failures };
      }
      if (failures > 0) log.info({ target: name }, 'the receiver of messages works again');
      failures = 0;
      await store.remove(message.id);
      note(name, 'sent');
    }
    return { found, failures };
  };

  const serve = async (delivery: Delivery): Promise<void> => {
    let failures = 0;
    let pauseMs = 0;
    while (!signal.aborted) {
      await pause(pauseMs, signal);
      pauseMs = pollMs;
      if (signal.aborted || !isCurrent()) continue;
      try {
        const looked = await sendDue(delivery, failures);
        failures = looked.failures;
        if (failures > 0) pauseMs = doubled(firstPauseMs, failures, longestPauseMs);
        else if (looked.found > 0) pauseMs = 0;
      } catch (err) {
        // A row that cannot be removed, such as on a full disk, has its message sent again: less and less often.
        failures += 1;
        pauseMs = doubled(Math.max(pollMs, firstPauseMs), failures, longestPauseMs);
        log.warn({ target: delivery.name, err }, 'cannot read or change messages: trying again');
      }
    }
  };

  const keepBound = async (): Promise<void> => {
    while (!signal.aborted) {
      await pause(pollMs, signal);
      if (signal.aborted || !isCurrent()) continue;
      try {
        for (const { name } of deliveries) {
          const dropped = await store.trim(name, maxMessages, signal);
          if (dropped === 0) continue;
          note(name, 'dropped', dropped);
          log.error(
            { target: name, dropped, maxMessages },
            'a receiver has more messages than messages.maxMessages: the newest of whoever has the most were dropped',
          );
        }
        await store.trimDead(maxMessages, signal);
      } catch (err) {
        if (!signal.aborted) log.warn({ err }, 'cannot limit the number of messages: trying again');
      }
    }
  };

  const running = [...deliveries.map(serve), ...(deliveries.length > 0 ? [keepBound()] : [])];
  return {
    async close() {
      stop.abort();
      // What waits for a response ends with its connections.
      await Promise.all(deliveries.map(delivery => delivery.close().catch(() => {})));
      await Promise.all(running);
    },
  };
}

function doubled(firstMs: number, times: number, longestMs: number): number {
  return Math.min(longestMs, firstMs * 2 ** Math.min(times - 1, 30));
}

async function pause(ms: number, signal: AbortSignal): Promise<void> {
  await sleep(ms, undefined, { signal }).catch(() => {});
}
