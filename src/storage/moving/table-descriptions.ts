import { openDatabase } from '../rows/file/index.ts';

export type CellKind = 'INTEGER' | 'TEXT' | 'BLOB';

/** A table that both databases have. */
export interface TableDescription {
  readonly name: string;
  /** With `rowid` where the order in which rows came is a part of them. */
  readonly columns: readonly { readonly name: string; readonly kind: CellKind }[];
  /** The column that the database numbers by itself. */
  readonly numbered: string | undefined;
}

const tablesOf = `
  SELECT m.name, t.wr AS isWithoutRowid
  FROM sqlite_schema m JOIN pragma_table_list t ON t.name = m.name
  WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite_%' ORDER BY m.name`;
const columnsOf = 'SELECT name, type AS kind, pk FROM pragma_table_info(?)';
const parentsOf = 'SELECT "table" FROM pragma_foreign_key_list(?)';

interface TableRow {
  readonly name: string;
  readonly isWithoutRowid: number;
}

/** Returns the tables of the current schema, each after those that it refers to. */
export async function describeTables(): Promise<readonly TableDescription[]> {
  const database = openDatabase(':memory:');
  try {
    const columns = database.prepare<[string], { name: string; kind: CellKind; pk: number }>(
      columnsOf,
    );
    const parents = database.prepare<[string], string>(parentsOf).pluck();
    const rows = database.prepare<[], TableRow>(tablesOf).all();
    const described = new Map<string, TableDescription>();
    const describe = ({ name, isWithoutRowid }: TableRow): void => {
      if (described.has(name)) return;
      const own = columns.all(name);
      const [key, ...others] = own.filter(({ pk }) => pk > 0);
      const isNumber = key?.kind === 'INTEGER' && others.length === 0;
      const hasRowid = key !== undefined && !isNumber && isWithoutRowid === 0;
      for (const parent of parents.all(name)) {
        for (const row of rows) if (row.name === parent) describe(row);
      }
      described.set(name, {
        name,
        columns: [
          ...(hasRowid ? [{ name: 'rowid', kind: 'INTEGER' as const }] : []),
          ...own.map(({ name: column, kind }) => ({ name: column, kind })),
        ],
        numbered: hasRowid ? 'rowid' : isNumber ? key.name : undefined,
      });
    };
    for (const row of rows) describe(row);
    return [...described.values()];
  } finally {
    await database.end();
  }
}

/** Returns the names of the columns, for a statement. */
export function columnList({ columns }: TableDescription): string {
  return columns.map(({ name }) => `"${name}"`).join(', ');
}
