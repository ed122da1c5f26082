import { createHash } from 'node:crypto';
import { Fault } from '../../foundation/fault.ts';
import { openDatabase } from '../rows/file/index.ts';
import { storable } from '../rows/postgres/index.ts';

/** A table that was moved, as read from both sides afterwards. */
interface MovedTable extends TableSum {
  readonly table: string;
}

export interface MoveReport {
  readonly tables: readonly MovedTable[];
  /** True when an earlier run had copied all of them, and was interrupted then. */
  readonly wasThere: boolean;
  /** Where the former rows are kept; null in PostgreSQL, where they stay as they are. */
  readonly kept: string | null;
}

/** A new database has these rows. */
const sumsFolder = 'sums';

/**
 * Moves all rows to another database. Reads both sides again, and compares the number of rows and their checksums. All
 * rows are there at the end, or none.
 *
 * @param requireId throws when the other side's content has another id than these rows
 * @throws {@link Fault} when the target has other rows, or cannot store a row
 */
export async function moveRows(
  from: RowsSide,
  to: RowsSide,
  tables: readonly TableDescription[],
  requireId: (id: string | undefined) => Promise<void> = async () => {},
): Promise<MoveReport> {
  const filled = await filledTables(to, tables);
  const wasThere = filled.length > 0;
  await requireId(await idOf(from, tables));
  if (!wasThere) await copyTables(from, to, tables);
  const compared: MovedTable[] = [];
  for (const table of tables) {
    const [source, target] = [await sumOf(from, table), await sumOf(to, table)];
    const isEqual = source.rows === target.rows && source.checksum === target.checksum;
    if (!isEqual) throw wasThere ? hasRows(to, filled) : isDifferent(table, source, target);
    compared.push({ table: table.name, ...target });
  }
  if (!wasThere) await to.commit();
  return { tables: compared, wasThere, kept: (await from.retire()) ?? null };
}

async function copyTables(
  from: RowsSide,
  to: RowsSide,
  tables: readonly TableDescription[],
): Promise<void> {
  await to.prepare(tables);
  for (const table of tables) {
    for await (const rows of from.read(table)) await to.insert(table, rows);
    const last = await from.lastNumber(table);
    if (last !== undefined) await to.setLastNumber(table, last);
  }
  await to.complete(tables);
}

async function sumOf(side: RowsSide, table: TableDescription): Promise<TableSum> {
  const sum = createTableSum();
  for await (const rows of side.read(table)) for (const row of rows) sum.add(row);
  return sum.sum();
}

async function filledTables(
  side: RowsSide,
  tables: readonly TableDescription[],
): Promise<readonly string[]> {
  const filled: string[] = [];
  for (const table of tables) {
    if (table.name !== sumsFolder && (await side.hasRows(table))) filled.push(table.name);
  }
  return filled;
}

async function idOf(
  side: RowsSide,
  tables: readonly TableDescription[],
): Promise<string | undefined> {
  const table = tables.find(({ name }) => name === 'data_directory');
  if (!table) return undefined;
  const at = table.columns.findIndex(({ name }) => name === 'id');
  let id: string | undefined;
  for await (const [row] of side.read(table)) id = row?.[at] as string | undefined;
  return id;
}

function hasRows({ label }: RowsSide, filled: readonly string[]): Fault {
  return new Fault(
    'bad-request',
    `${label} has other rows already (${filled.join(', ')}). Nothing was moved: name an empty database`,
    { phase: 'store' },
  );
}

function isDifferent({ name }: TableDescription, source: TableSum, target: TableSum): Fault {
  return new Fault(
    'internal',
    `The copy of the table ${name} differs (${source.rows} rows, ${source.checksum}; copied ${target.rows} rows, ${target.checksum}). Nothing was moved`,
    { phase: 'store' },
  );
}

/** A database that rows are moved from or to, locked and in one transaction. */
export interface RowsSide {
  /** How messages name it: without a password. */
  readonly label: string;
  /** Returns the rows in batches of bounded size. */
  read(table: TableDescription): AsyncIterable<readonly TableRow[]>;
  hasRows(table: TableDescription): Promise<boolean>;
  /** Removes the rows that a new database has, and stops the triggers that would count the rows a second time. */
  prepare(tables: readonly TableDescription[]): Promise<void>;
  insert(table: TableDescription, rows: readonly TableRow[]): Promise<void>;
  /** Starts the triggers again. */
  complete(tables: readonly TableDescription[]): Promise<void>;
  /** Returns the highest number that the database has given to a row of the table, also to one that is removed. */
  lastNumber(table: TableDescription): Promise<bigint | undefined>;
  setLastNumber(table: TableDescription, last: bigint): Promise<void>;
  /** Keeps the rows that were inserted. Without it, `close` drops them. */
  commit(): Promise<void>;
  /** Puts the rows out of the reach of a server, where that is possible. Returns the place where they are kept. */
  retire(): Promise<string | undefined>;
  close(): Promise<void>;
}

export const mostRows = 1000;
/** Batches end when they hold this much. */
const batchBytes = 4 * 1024 * 1024;

/** Bounds of a batch: a single row may have more. */
export function isFull(rows: number, bytes: number): boolean {
  return rows >= mostRows || bytes >= batchBytes;
}

/** A value as both databases hold it: integers are exact also above 2^53. */
type Cell = bigint | string | Uint8Array | null;
/** Values in the order of the table's columns. */
export type TableRow = readonly Cell[];

/** The number of the rows of a table, and a checksum that does not depend on their order. */
interface TableSum {
  readonly rows: number;
  readonly checksum: string;
}

const sumBits = 256;

/** Adds up the rows of a table. */
function createTableSum(): { add(row: TableRow): void; sum(): TableSum } {
  let rows = 0;
  let total = 0n;
  return {
    add(row) {
      const hash = createHash('sha256');
      for (const cell of row) addCell(hash, cell);
      // Databases sort text and null differently. A sum of hashes is the same in any order.
      total = BigInt.asUintN(sumBits, total + BigInt(`0x${hash.digest('hex')}`));
      rows += 1;
    },
    sum: () => ({ rows, checksum: total.toString(16).padStart(sumBits / 4, '0') }),
  };
}

/**
 * Returns a row of SQLite as PostgreSQL stores it. SQLite checks no types.
 *
 * @throws {@link Fault} for a value that PostgreSQL does not store in the column
 */
export function storableRow(
  { name: table, columns }: TableDescription,
  row: readonly unknown[],
): TableRow {
  return columns.map(({ name, kind }, at) => {
    const cell = row[at];
    if (cell === null) return null;
    if (kind === 'INTEGER' && typeof cell === 'bigint') return cell;
    if (kind === 'TEXT' && typeof cell === 'string') return storable(cell) as string;
    if (kind === 'BLOB' && cell instanceof Uint8Array) return cell;
    throw new Fault(
      'bad-request',
      `A row of the table ${table} has ${kindOf(cell)} in its column ${name}, which PostgreSQL does not store there (${kind}). Nothing was moved: correct or delete the row with sqlite3, and try again`,
      { phase: 'store' },
    );
  });
}

/** Returns about how much memory the row takes. */
export function bytesOf(row: TableRow): number {
  let bytes = 64;
  for (const cell of row) {
    bytes += typeof cell === 'string' || cell instanceof Uint8Array ? cell.length : 8;
  }
  return bytes;
}

function addCell(hash: ReturnType<typeof createHash>, cell: Cell): void {
  if (cell === null) hash.update('-');
  else if (typeof cell === 'bigint') hash.update(`i${cell};`);
  else if (typeof cell === 'string') hash.update(`t${Buffer.byteLength(cell)};`).update(cell);
  else hash.update(`b${cell.length};`).update(cell);
}

function kindOf(cell: unknown): string {
  if (typeof cell === 'number') return 'a number that is not an integer';
  if (typeof cell === 'bigint') return 'an integer';
  return typeof cell === 'string' ? 'text' : 'bytes';
}

type CellKind = 'INTEGER' | 'TEXT' | 'BLOB';

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

interface SchemaTable {
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
    const rows = database.prepare<[], SchemaTable>(tablesOf).all();
    const described = new Map<string, TableDescription>();
    const describe = ({ name, isWithoutRowid }: SchemaTable): void => {
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
