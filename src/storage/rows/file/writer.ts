import { setTimeout as sleep, setImmediate as turn } from 'node:timers/promises';
import type { Database as Sqlite } from 'better-sqlite3';
import { databaseLocked, isDatabaseBusy } from '../../../foundation/fault.ts';
import type {
  Call,
  Change,
  RowDatabase,
  Statement,
  Values,
  WriteOptions,
} from '../row-database.ts';

/**
 * Changes rows without holding the event loop. Changes of the same moment share one transaction and one flush of the
 * disk. While another process holds the write lock, the write is retried until its patience ends; reads continue.
 */
interface Writer {
  /**
   * Runs the work in a transaction. Resolves with its result once the change would survive a power failure. Rejects
   * with the error of the work, after its changes are undone; rejects with a `Fault` (503) when the lock was not free
   * in time. The work is synchronous and runs at most once.
   */
  write<T>(work: () => T, options?: WriteOptions): Promise<T>;
  /** Does the same, but resolves as soon as readers see the change: for changes that a power failure may undo. */
  commit<T>(work: () => T, options?: WriteOptions): Promise<T>;
  /** Resolves when everything that was committed before would survive a power failure. */
  settle(): Promise<void>;
}

export interface WriterDeps {
  readonly database: Sqlite;
  /**
   * Brings the content that rows refer to to the disk. Called before each transaction: a row may reach the disk with
   * the flush of another one, or by itself, and must not refer to content that a power failure would lose.
   */
  readonly settleFirst: () => Promise<void>;
  /** Brings all committed changes to the disk. */
  readonly flush: () => Promise<void>;
  /** Resolves when the next transaction may begin. */
  readonly pause: () => Promise<void> | undefined;
}

interface Job {
  readonly work: () => unknown;
  readonly isDurable: boolean;
  /** On the scale of `performance.now()`. */
  readonly deadline: number;
  readonly done: PromiseWithResolvers<unknown>;
}

/** The result of a job in its transaction. */
type Outcome = { readonly value: unknown } | { readonly error: unknown };

const defaultPatienceMs = 10_000;
const firstPauseMs = 5;
const longestPauseMs = 50;
const longestGroupMs = 20;
const mostJobs = 10_000;

export function createWriter({ database, settleFirst, flush, pause }: WriterDeps): Writer {
  const queue: Job[] = [];
  let isRunning = false;
  /** The transaction has the lock: its jobs run, and are not run again. */
  let hasBegun = false;

  const inGroup = database.transaction((jobs: readonly Job[], outcomes: Outcome[]) => {
    const began = performance.now();
    hasBegun = true;
    // A savepoint copies each page before it changes. A single job needs none: its transaction is undone as a whole.
    const [alone] = jobs.length === 1 ? jobs : [];
    if (alone) {
      outcomes.push({ value: alone.work() });
      return;
    }
    for (const job of jobs) {
      outcomes.push(outcomeOf(job));
      // After some errors, such as a full disk, SQLite itself has undone everything.
      if (!database.inTransaction) throw errorOf(outcomes.at(-1));
      if (performance.now() - began > longestGroupMs) return;
    }
  });
  const inSavepoint = database.transaction((work: () => unknown) => work());
  const outcomeOf = ({ work }: Job): Outcome => {
    try {
      return { value: inSavepoint(work) };
    } catch (error) {
      return { error };
    }
  };

  /** Runs the first jobs of the queue in one transaction; false when the lock is not free. */
  const runGroup = async (): Promise<boolean> => {
    const outcomes: Outcome[] = [];
    // Later jobs may refer to content that is not on the disk yet.
    const ready = [...queue];
    const unsettled = await settleFirst().then(
      () => undefined,
      error => ({ error }),
    );
    if (unsettled) {
      const refused = new Set(ready.filter(({ isDurable }) => isDurable));
      queue.splice(0, ready.length, ...ready.filter(job => !refused.has(job)));
      for (const { done } of refused) done.reject(unsettled.error);
      return true;
    }
    hasBegun = false;
    let failure: { readonly error: unknown } | undefined;
    try {
      inGroup.immediate(ready, outcomes);
    } catch (error) {
      if (!hasBegun && isDatabaseBusy(error)) return false;
      failure = { error };
    }
    const jobs = queue.splice(0, Math.max(1, outcomes.length));
    const flushed = failure || !jobs.some(job => job.isDurable) ? undefined : flush();
    for (const [at, { isDurable, done }] of jobs.entries()) {
      const outcome = failure ?? (outcomes[at] as Outcome);
      if ('error' in outcome) done.reject(outcome.error);
      else if (isDurable && flushed) flushed.then(() => done.resolve(outcome.value), done.reject);
      else done.resolve(outcome.value);
    }
    // Without a flush, the callers would go on, and their next jobs run, all in one turn of the event loop.
    await (flushed?.catch(() => {}) ?? turn());
    return true;
  };

  const expire = (): void => {
    const now = performance.now();
    for (let at = queue.length - 1; at >= 0; at -= 1) {
      if ((queue[at] as Job).deadline > now) continue;
      for (const { done } of queue.splice(at, 1)) done.reject(databaseLocked());
    }
  };

  const run = async (): Promise<void> => {
    isRunning = true;
    let pauseMs = firstPauseMs;
    // Jobs of one turn of the event loop are written together: a transaction costs more than a row.
    await turn();
    while (queue.length > 0) {
      await pause();
      if (await runGroup()) {
        pauseMs = firstPauseMs;
        continue;
      }
      expire();
      await sleep(pauseMs);
      pauseMs = Math.min(longestPauseMs, pauseMs * 2);
    }
    isRunning = false;
  };

  const add = <T>(
    work: () => T,
    isDurable: boolean,
    { patienceMs = defaultPatienceMs }: WriteOptions = {},
  ): Promise<T> => {
    if (queue.length >= mostJobs) return Promise.reject(databaseLocked());
    const done = Promise.withResolvers<unknown>();
    queue.push({ work, isDurable, deadline: performance.now() + patienceMs, done });
    if (!isRunning) void run();
    return done.promise as Promise<T>;
  };

  return {
    write: (work, options) => add(work, true, options),
    commit: (work, options) => add(work, false, options),
    settle: flush,
  };
}

function errorOf(outcome: Outcome | undefined): unknown {
  return outcome && 'error' in outcome ? outcome.error : new Error('the transaction has ended');
}

/** A call runs when it is asked for its first step, and has its result at once. */
class SqliteCall<T> implements Call<T> {
  readonly #run: () => T;

  constructor(run: () => T) {
    this.#run = run;
  }

  [Symbol.iterator]() {
    return this;
  }

  next(): { readonly done: true; readonly value: T } {
    return { done: true, value: this.#run() };
  }
}

function attempt<T>(change: Change<T>, { signal }: WriteOptions = {}): T {
  signal?.throwIfAborted();
  return resultOf(change());
}

/** The statements of an SQLite file. They run in this thread, without a wait between the statements of a change. */
export function sqliteStatements(database: Sqlite, writer: Writer): RowDatabase {
  return {
    isInThread: true,
    sql: <Row>(text: string) => statementOf<Row>(database, text),
    read: async call => resultOf(call),
    write: (change, options) => writer.write(() => attempt(change, options), options),
    commit: (change, options) => writer.commit(() => attempt(change, options), options),
    settle: writer.settle,
  };
}

function statementOf<Row>(database: Sqlite, text: string): Statement<Row> {
  const statement = database.prepare(text);
  return {
    get: (...values: Values) => new SqliteCall(() => statement.get(...values) as Row | undefined),
    all: (...values: Values) => new SqliteCall(() => statement.all(...values) as Row[]),
    run: (...values: Values) => new SqliteCall(() => void statement.run(...values)),
    changes: (...values: Values) => new SqliteCall(() => statement.run(...values).changes),
    hasChanged: (...values: Values) => new SqliteCall(() => statement.run(...values).changes > 0),
    pluck<T>() {
      statement.pluck();
      return this as unknown as Statement<T>;
    },
  };
}

function resultOf<T>(change: ReturnType<Change<T>>): T {
  const { done, value } = change[Symbol.iterator]().next();
  if (done !== true) throw new Error('This statement belongs to another database');
  return value;
}
