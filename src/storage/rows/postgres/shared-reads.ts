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
// A database nearby answers sooner. Until then, one batch grows: a write to the network costs more than a statement in it.
const patienceMs = 2;
// One statement that fails, fails those that are sent with it.
const mostCalls = 100;

/**
 * Returns a function that reads with single statements. Those of one turn of the event loop, and those that arrive while
 * others are on their way, are sent together, and the same one of many callers once. A statement is never sent before its callers have asked, so each sees
 * what was acknowledged before.
 *
 * @param send runs statements in one round trip
 */
export function createSharedReads(
  send: (calls: readonly PostgresCall<unknown>[]) => Promise<StatementResults>,
): <T>(call: PostgresCall<T>) => Promise<T> {
  const waiting: Batch[] = [];
  let running = 0;
  let isStarting = false;
  let late: NodeJS.Timeout | undefined;

  const sendUpTo = (most: number): void => {
    while (running < most) {
      const batch = waiting.shift();
      if (!batch) return;
      running += 1;
      send(batch.calls)
        .then(batch.results.resolve, batch.results.reject)
        .finally(() => {
          running -= 1;
          clearTimeout(late);
          late = undefined;
          start();
        });
    }
  };
  const start = (): void => {
    if (isStarting) return;
    isStarting = true;
    setImmediate(() => {
      isStarting = false;
      sendUpTo(1);
      if (waiting.length === 0) return;
      late ??= setTimeout(() => sendUpTo(mostRunning), patienceMs);
    });
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
