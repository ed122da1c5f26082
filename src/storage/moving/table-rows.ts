import { createHash } from 'node:crypto';
import { Fault } from '../../foundation/fault.ts';
import { storable } from '../rows/postgres/index.ts';
import type { TableDescription } from './table-descriptions.ts';

/** A value as both databases hold it: integers are exact also above 2^53. */
export type Cell = bigint | string | Uint8Array | null;
/** Values in the order of the table's columns. */
export type TableRow = readonly Cell[];

/** The number of the rows of a table, and a checksum that does not depend on their order. */
export interface TableSum {
  readonly rows: number;
  readonly checksum: string;
}

const bits = 256;

/** Adds up the rows of a table. */
export function createTableSum(): { add(row: TableRow): void; sum(): TableSum } {
  let rows = 0;
  let total = 0n;
  return {
    add(row) {
      const hash = createHash('sha256');
      for (const cell of row) addCell(hash, cell);
      // Databases sort text and null differently. A sum of hashes is the same in any order.
      total = BigInt.asUintN(bits, total + BigInt(`0x${hash.digest('hex')}`));
      rows += 1;
    },
    sum: () => ({ rows, checksum: total.toString(16).padStart(bits / 4, '0') }),
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
