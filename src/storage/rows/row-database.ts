/** A value of a statement. */
export type Value = string | number | null | Uint8Array;

/** The values of a statement: in the order of its `?`, or by the names of its `@name`. */
export type Values = readonly Value[] | readonly [Readonly<Record<string, Value | undefined>>];

/**
 * A statement with its values. Within a change, `yield* call` runs it and returns its result. Outside of a change,
 * {@link RowDatabase.read} does.
 */
export interface Call<T> {
  [Symbol.iterator](): Iterator<Sent, T, StatementResults>;
}

/**
 * What calls hand to a database across the network in one round trip, and what they get back in the same order. SQLite
 * answers without either.
 */
export type Sent = readonly object[];
export type StatementResults = readonly StatementResult[];
export interface StatementResult {
  readonly rows: readonly Record<string, unknown>[];
  readonly changes: number;
}

/** A statement, prepared once. */
export interface Statement<Row> {
  /** Returns the first row. */
  get(...values: Values): Call<Row | undefined>;
  all(...values: Values): Call<Row[]>;
  run(...values: Values): Call<void>;
  /** Returns the number of changed rows. */
  changes(...values: Values): Call<number>;
  /** Returns true when a row was changed. */
  hasChanged(...values: Values): Call<boolean>;
  /** Returns the same statement with the first column in place of a row. */
  pluck<T>(): Pick<Statement<T>, 'get' | 'all'>;
}

/**
 * The work of a transaction: a generator that calls statements, or a single call, which costs the fewest round trips. It
 * may run more than once, and other work may run between two of its statements. So it reads nothing that changes meanwhile, and leaves nothing behind but
 * its result.
 */
export type Change<T> = () => Call<T>;

/** A part of a change, as a generator. */
export type RowsWork<T> = Generator<Sent, T, StatementResults>;

/** A database for the stores. `sql` is the same text for all databases, see docs/adr/0046-one-set-of-statements.md. */
export interface RowDatabase {
  /** True where statements run in this thread: each one holds the event loop, also while it waits for the disk. */
  readonly isInThread?: boolean;
  sql<Row = unknown>(text: string): Statement<Row>;
  /** Runs a statement, or several one after the other, that change nothing. */
  read<T>(call: Call<T>): Promise<T>;
  /**
   * Runs the change in a transaction. Resolves with its result once it would survive a power failure. Rejects with its
   * error after it is undone; rejects with a `Fault` (503) when the database cannot be reached or is locked for too long.
   */
  write<T>(change: Change<T>, options?: WriteOptions): Promise<T>;
  /** Does the same, but resolves as soon as readers see the change: for changes that a power failure may undo. */
  commit<T>(change: Change<T>, options?: WriteOptions): Promise<T>;
  /** Resolves when everything that was committed before would survive a power failure. */
  settle(): Promise<void>;
}

export interface WriteOptions {
  /** How long the change is tried (ms). Default: 10 seconds. */
  readonly patienceMs?: number;
  /** After it is aborted, no attempt of the change begins, and the change is rejected with the reason. */
  readonly signal?: AbortSignal | undefined;
}

type ResultsOf<Calls extends readonly Call<unknown>[]> = {
  [At in keyof Calls]: Calls[At] extends Call<infer Result> ? Result : never;
};

/**
 * Runs calls, or parts of a change, that do not need each other's results. A database across the network gets their
 * first statements in one round trip, then their second ones, and so on. SQLite runs one after the other.
 *
 * @returns their results, in the same order
 */
export function* together<const Calls extends readonly Call<unknown>[]>(
  calls: Calls,
): RowsWork<ResultsOf<Calls>> {
  const works = calls.map(call => call[Symbol.iterator]());
  const steps = works.map(work => work.next());
  while (steps.some(({ done }) => !done)) {
    const sent = steps.map(({ done, value }) => (done ? [] : (value as readonly object[])));
    const results: StatementResults = yield sent.flat();
    let taken = 0;
    for (const [at, { length }] of sent.entries()) {
      if (steps[at]?.done) continue;
      steps[at] = works[at]?.next(results.slice(taken, taken + length)) as (typeof steps)[number];
      taken += length;
    }
  }
  return steps.map(({ value }) => value) as ResultsOf<Calls>;
}

const lastSent = new WeakSet<Sent>();

/**
 * Runs the last statements of a change together. A database across the network commits the change in the same round trip,
 * so nothing may depend on their results but the result of the change, and no other statement may follow.
 *
 * @returns their results, in the same order
 */
export function* atLast<const Calls extends readonly Call<unknown>[]>(
  calls: Calls,
): RowsWork<ResultsOf<Calls>> {
  const work = together(calls);
  const step = work.next();
  if (step.done) return step.value;
  lastSent.add(step.value);
  const end = work.next(yield step.value);
  if (!end.done) throw new Error('The last calls of a change must be single statements');
  return end.value;
}

/** True for what {@link atLast} has handed to the database. */
export function isLast(sent: Sent): boolean {
  return lastSent.has(sent);
}

/**
 * Returns a condition: there is a row. For a column, and beside `OR`, where PostgreSQL may answer `EXISTS` by reading a
 * whole table for each statement.
 *
 * @param from the table and its condition, as they follow `FROM`
 */
export function isThere(from: string): string {
  return `(SELECT 1 FROM ${from} LIMIT 1) IS NOT NULL`;
}
