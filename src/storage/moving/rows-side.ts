import type { TableDescription } from './table-descriptions.ts';
import type { TableRow } from './table-rows.ts';

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
