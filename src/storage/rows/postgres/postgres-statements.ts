import type {
  Call,
  Sent,
  Statement,
  StatementResult,
  StatementResults,
  Value,
  Values,
} from '../row-database.ts';

const nothing: StatementResult = { rows: [], changes: 0 };

/** A call on its way to PostgreSQL. */
export class PostgresCall<T> implements Call<T> {
  readonly name: string;
  readonly text: string;
  readonly values: readonly (Value | undefined)[];
  /** True for a call that reads at most one row. */
  readonly isOfOneRow: boolean;
  readonly #resultOf: (result: StatementResult) => T;

  constructor(
    { name, text }: { readonly name: string; readonly text: string },
    values: readonly (Value | undefined)[],
    resultOf: (result: StatementResult) => T,
    isOfOneRow = false,
  ) {
    this.name = name;
    this.text = text;
    this.values = values;
    this.isOfOneRow = isOfOneRow;
    this.#resultOf = resultOf;
  }

  /** Returns the result of the call from what the database returned. */
  resultOf(result: StatementResult | undefined): T {
    return this.#resultOf(result ?? nothing);
  }

  *[Symbol.iterator](): Generator<Sent, T, StatementResults> {
    const [result] = yield [this];
    return this.resultOf(result);
  }
}

let statements = 0;

/** Returns a statement, which each connection prepares when it runs it for the first time. */
export function postgresStatement<Row>(statement: string): Statement<Row> {
  const { text, inOrder } = postgresText(statement);
  statements += 1;
  const prepared = { name: `s${statements}`, text };
  const call = <T>(values: Values, resultOf: (result: StatementResult) => T, isOfOneRow = false) =>
    new PostgresCall(prepared, inOrder(values), resultOf, isOfOneRow);
  return {
    get: (...values: Values) => call(values, ({ rows }) => rows[0] as Row | undefined, true),
    all: (...values: Values) => call(values, ({ rows }) => [...rows] as Row[]),
    run: (...values: Values) => call(values, () => {}),
    changes: (...values: Values) => call(values, ({ changes }) => changes),
    hasChanged: (...values: Values) => call(values, ({ changes }) => changes > 0),
    pluck<First>(): Pick<Statement<First>, 'get' | 'all'> {
      return {
        get: (...values) =>
          call(values, ({ rows }) => rows[0] && (firstOf(rows[0]) as First | undefined)),
        all: (...values) => call(values, ({ rows }) => rows.map(row => firstOf(row) as First)),
      };
    },
  };
}

function firstOf(row: Readonly<Record<string, unknown>>): unknown {
  for (const name in row) return row[name];
  return undefined;
}

/** Returns a value that PostgreSQL stores: its text has no U+0000. */
export function storable(value: Value | undefined): Value | undefined {
  return typeof value === 'string' && value.includes('\0')
    ? value.replaceAll('\0', '\ufffd')
    : value;
}

/** A statement in the text that PostgreSQL takes. */
interface PostgresText {
  readonly text: string;
  /** Returns the values in the order of their numbers. */
  readonly inOrder: (values: Values) => (Value | undefined)[];
}

// Text in quotes stays as it is. PostgreSQL numbers its parameters, and writes names without quotes in lower case.
const parts = /'(?:[^']|'')*'|"[^"]*"|@\w+|\?|\b[a-z]+[A-Z]\w*\b/g;

/** Writes a statement of the stores for PostgreSQL. */
export function postgresText(statement: string): PostgresText {
  const names: string[] = [];
  let count = 0;
  const text = statement.replace(parts, part => {
    if (part === '?') {
      count += 1;
      return `$${count}`;
    }
    if (part.startsWith('@')) {
      const name = part.slice(1);
      if (!names.includes(name)) names.push(name);
      return `$${names.indexOf(name) + 1}`;
    }
    return /^['"]/.test(part) ? part : `"${part}"`;
  });
  const inOrder = (values: Values): (Value | undefined)[] => {
    // As SQLite, it ignores names that the statement does not have.
    if (names.length === 0) return count === 0 ? [] : [...(values as readonly Value[])];
    const given = values[0] as Readonly<Record<string, Value>>;
    return names.map(name => given[name]);
  };
  return { text, inOrder };
}
