import type { StatementResults } from '../row-database.ts';
import type { PostgresCall } from './postgres-statements.ts';

/** Statements that are sent together. */
interface Batch {
  readonly calls: PostgresCall<unknown>[];
  /** The position of each statement by its values: the same one is sent once. */
  readonly places: Map<string, number>;
  readonly results: PromiseWithResolvers<StatementResults>;
}

// The others of the few connections are for reads of several steps.
const mostRunning = 2;
// A batch grows for so long while another one runs, and after one with several statements: a write to the network costs more than a
// statement in it.
const patienceMs = 2;
const severalCalls = 4;
// One statement that fails, fails those that are sent with it.
const mostCalls = 100;

/**
 * Returns a function that reads with single statements. Those of one turn of the event loop, and those that arrive while
 * others are on their way, are sent together, and the same one of many callers once. On a busy server, batches begin 2 ms apart. A statement
 * is never sent before its callers have asked, so each sees what was acknowledged before.
 *
 * @param send runs statements in one round trip
 * @param now returns the time (ms) of a monotonic clock
 */
export function createSharedReads(
  send: (calls: readonly PostgresCall<unknown>[]) => Promise<StatementResults>,
  now: () => number = () => performance.now(),
): <T>(call: PostgresCall<T>) => Promise<T> {
  const waiting: Batch[] = [];
  let running = 0;
  let isStarting = false;
  let restUntil = Number.NEGATIVE_INFINITY;
  let pause: NodeJS.Timeout | undefined;

  const sendUpTo = (most: number): void => {
    while (running < most) {
      const batch = waiting.shift();
      if (!batch) return;
      running += 1;
      if (batch.calls.length >= severalCalls) restUntil = now() + patienceMs;
      send(batch.calls)
        .then(batch.results.resolve, batch.results.reject)
        .finally(() => {
          running -= 1;
          clearTimeout(pause);
          pause = undefined;
          start();
        });
    }
  };
  const later = (ms: number, work: () => void): void => {
    pause ??= setTimeout(() => {
      pause = undefined;
      work();
    }, ms);
  };
  const begin = (): void => {
    isStarting = false;
    const restMs = restUntil - now();
    if (running === 0 && restMs <= 0) sendUpTo(1);
    if (waiting.length === 0) return;
    if (running > 0) later(patienceMs, () => sendUpTo(mostRunning));
    else later(restMs, begin);
  };
  const start = (): void => {
    if (isStarting) return;
    isStarting = true;
    setImmediate(begin);
  };
  const batchFor = (key: string): Batch => {
    const last = waiting.at(-1);
    if (last && (last.places.has(key) || last.calls.length < mostCalls)) return last;
    const results = Promise.withResolvers<StatementResults>();
    const batch: Batch = { calls: [], places: new Map(), results };
    waiting.push(batch);
    return batch;
  };

  return async call => {
    const key = keyOf(call);
    const batch = batchFor(key);
    const place = batch.places.get(key) ?? batch.calls.push(call) - 1;
    batch.places.set(key, place);
    start();
    const { [place]: result } = await batch.results.promise;
    return call.resultOf(result);
  };
}

function keyOf({ name, values }: PostgresCall<unknown>): string {
  const [only] = values;
  // Most have one key.
  if (values.length === 1 && only instanceof Uint8Array) return `${name} ${bytesOf(only)}`;
  const parts = values.map(value => (value instanceof Uint8Array ? [bytesOf(value)] : value));
  return `${name} ${JSON.stringify(parts)}`;
}

/** Returns a text that no other bytes have. */
function bytesOf({ buffer, byteOffset, byteLength }: Uint8Array): string {
  return Buffer.from(buffer, byteOffset, byteLength).toString('latin1');
}
