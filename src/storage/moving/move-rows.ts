import { Fault } from '../../foundation/fault.ts';
import type { RowsSide } from './rows-side.ts';
import type { TableDescription } from './table-descriptions.ts';
import { createTableSum, type TableSum } from './table-rows.ts';

/** A table that was moved, as read from both sides afterwards. */
export interface MovedTable extends TableSum {
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
const sums = 'sums';

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
  if (!wasThere) await copy(from, to, tables);
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

async function copy(
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
    if (table.name !== sums && (await side.hasRows(table))) filled.push(table.name);
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
