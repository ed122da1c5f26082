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
}
