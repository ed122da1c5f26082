import { statSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { Fault } from '../../foundation/fault.ts';
import {
  describeTables,
  type MoveReport,
  moveRows,
  openPostgresSide,
  openSqliteSide,
  type RowsSide,
} from '../../storage/moving/index.ts';
import { requireContentOf, requireRestored } from '../../storage/whole-data.ts';
import { CommandError, print, table, UsageError, type Values } from '../command/command.ts';

/** Where the rows of a site are: a file of SQLite, or a database of PostgreSQL. */
type Place = { readonly file: string } | { readonly url: string };

/** Moves all rows and prints what was moved. Returns the exit code. Throws {@link CommandError}. */
export async function runMigrate(values: Values, from: string, to: string): Promise<number> {
  const source = placeOf(from, 'from');
  const target = placeOf(to, 'to');
  if ('file' in source === 'file' in target) {
    throw new UsageError('--from and --to name one file of SQLite and one database of PostgreSQL');
  }
  if ('file' in source) requireFile(source.file);
  const { report, names } = await move(source, target);
  print(values, report, linesOf(report, names, target));
  return 0;
}

function placeOf(given: string, option: string): Place {
  if (/^postgres(?:ql)?:\/\/\S+$/.test(given) && URL.canParse(given)) {
    return { url: requireEncoded(given, option) };
  }
  const path = /^sqlite:(?<path>.+)$/.exec(given)?.groups?.path;
  if (path === undefined) {
    // The value may have a password.
    throw new UsageError(
      `--${option} is not a place: expected sqlite:DIRECTORY, sqlite:FILE or postgres://...`,
    );
  }
  const file = resolve(path);
  const isDirectory = statSync(file, { throwIfNoEntry: false })?.isDirectory() === true;
  return { file: isDirectory ? join(file, 'sluice.db') : file };
}

/** With `?` or `#` in the password, a part of it would be the host that messages name. */
function requireEncoded(url: string, option: string): string {
  const { search, hash } = new URL(url);
  if (!`${search}${hash}`.includes('@')) return url;
  throw new UsageError(
    `--${option} has a password with ? or #: write them as %3F and %23, or set PGPASSWORD`,
  );
}

function requireFile(file: string): void {
  if ((statSync(file, { throwIfNoEntry: false })?.size ?? 0) > 0) return;
  throw new CommandError(`${file} does not exist. Name the data directory of the server`);
}

async function move(
  source: Place,
  target: Place,
): Promise<{ readonly report: MoveReport; readonly names: readonly [string, string] }> {
  const tables = await describeTables();
  const open = async (place: Place, isSource: boolean): Promise<RowsSide> => {
    if ('url' in place) return openPostgresSide(place.url, tables, isSource);
    requireRestored(dirname(place.file));
    return openSqliteSide(place.file);
  };
  const requireId = async (id: string | undefined) => {
    if ('file' in target) await requireContentOf(dirname(target.file), id);
  };
  const sides: RowsSide[] = [];
  try {
    const from = await open(source, true);
    sides.push(from);
    const to = await open(target, false);
    sides.push(to);
    return {
      report: await moveRows(from, to, tables, requireId),
      names: [from.label, to.label],
    };
  } catch (error) {
    throw commandError(error);
  } finally {
    for (const side of sides) await side.close();
  }
}

/** Returns errors of the places as errors of the command. */
function commandError(error: unknown): unknown {
  if (error instanceof Fault) return new CommandError(error.message);
  const isOfSystem =
    error instanceof Error && 'code' in error && /^(?:E(?!RR_)|SQLITE_)/.test(String(error.code));
  return isOfSystem ? new CommandError(`Cannot move the rows: ${error.message}`) : error;
}

function linesOf(
  { tables, wasThere, kept }: MoveReport,
  [from, to]: readonly [string, string],
  target: Place,
): readonly string[] {
  const setting = 'file' in target ? 'sqlite' : 'the address in --to';
  const rows = tables.reduce((sum, one) => sum + one.rows, 0);
  return [
    ...table(
      ['table', 'rows', 'checksum'],
      tables.map(one => [one.table, String(one.rows), one.checksum.slice(0, 16)]),
    ),
    wasThere
      ? `An earlier run had moved all ${rows} rows to ${to}. Both sides are equal.`
      : `Moved ${rows} rows from ${from} to ${to}. Both sides are equal.`,
    `Set SLUICE_DATABASE to ${setting}, and start the server with the same data directory.`,
    kept === null
      ? 'Remove the database in PostgreSQL when the server runs well.'
      : `The former rows are kept in ${kept}: remove it when the server runs well.`,
  ];
}
