import type { Database as Sqlite } from 'better-sqlite3';
import type { Call, Change, RowDatabase, Statement, Values } from '../driver/row-database.ts';
import type { Writer } from './writer.ts';

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

/** The statements of an SQLite file. They run in this thread, without a wait between the statements of a change. */
export function sqliteStatements(database: Sqlite, writer: Writer): RowDatabase {
  return {
    sql: <Row>(text: string) => statementOf<Row>(database, text),
    read: async call => resultOf(call),
    write: (change, options) => writer.write(() => resultOf(change()), options),
    commit: (change, options) => writer.commit(() => resultOf(change()), options),
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
