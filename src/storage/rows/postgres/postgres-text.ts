import type { Value, Values } from '../driver/row-database.ts';

/** A statement in the text that PostgreSQL takes. */
export interface PostgresText {
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
