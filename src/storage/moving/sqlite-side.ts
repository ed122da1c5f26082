import { existsSync, statSync } from 'node:fs';
import { rename } from 'node:fs/promises';
import { dirname } from 'node:path';
import { lockData, syncDirectory } from '../directory/index.ts';
import { openDatabase, removeDatabase, syncFile } from '../rows/file/index.ts';
import {
  bytesOf,
  columnList,
  isFull,
  type RowsSide,
  storableRow,
  type TableRow,
} from './move-rows.ts';

const patienceMs = 5000;

/**
 * Opens the SQLite file of a data directory, which no server may use meanwhile. Where there is none, makes one that gets
 * its name with `commit`.
 *
 * @throws a `Fault` when a server uses the directory, or a newer version wrote the file
 */
export async function openSqliteSide(path: string): Promise<RowsSide> {
  const directory = dirname(path);
  const lock = await lockData(directory, () => {}, {
    patienceMs,
    message: `A server uses ${directory}. Stop it, and move the rows then`,
  });
  const isThere = (statSync(path, { throwIfNoEntry: false })?.size ?? 0) > 0;
  const opened = isThere ? path : `${path}.new`;
  if (!isThere) await removeDatabase(opened);
  const database = openDatabase(opened);
  let isOpen = true;
  const shut = async (): Promise<void> => {
    if (isOpen) await database.end();
    isOpen = false;
  };
  try {
    // Commands that change rows wait.
    database.exec('BEGIN IMMEDIATE');
  } catch (error) {
    await shut();
    lock[Symbol.dispose]();
    throw error;
  }
  let triggers: string[] = [];

  return {
    label: path,
    async *read(table) {
      const rows = database
        .prepare<[], unknown[]>(`SELECT ${columnList(table)} FROM "${table.name}"`)
        .safeIntegers()
        .raw();
      let batch: TableRow[] = [];
      let bytes = 0;
      for (const row of rows.iterate()) {
        const storable = storableRow(table, row);
        batch.push(storable);
        bytes += bytesOf(storable);
        if (!isFull(batch.length, bytes)) continue;
        yield batch;
        batch = [];
        bytes = 0;
      }
      if (batch.length > 0) yield batch;
    },
    hasRows: async ({ name }) =>
      database.prepare(`SELECT 1 FROM "${name}" LIMIT 1`).get() !== undefined,
    async prepare(tables) {
      const all = database
        .prepare<[], { name: string; sql: string }>(
          "SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'",
        )
        .all();
      triggers = all.map(({ sql }) => sql);
      for (const { name } of all) database.exec(`DROP TRIGGER "${name}"`);
      for (const { name } of tables) database.exec(`DELETE FROM "${name}"`);
    },
    async insert(table, rows) {
      const marks = table.columns.map(() => '?').join(', ');
      const insert = database.prepare(
        `INSERT INTO "${table.name}" (${columnList(table)}) VALUES (${marks})`,
      );
      for (const row of rows) insert.run(...row);
    },
    async complete() {
      for (const sql of triggers) database.exec(sql);
    },
    async lastNumber({ name, numbered }) {
      if (numbered === undefined) return undefined;
      const given = database.prepare('SELECT seq FROM sqlite_sequence WHERE name = ?').pluck();
      const highest = database.prepare(`SELECT MAX("${numbered}") FROM "${name}"`).pluck();
      const last = given.safeIntegers().get(name) ?? highest.safeIntegers().get();
      return (last as bigint | null) ?? undefined;
    },
    async setLastNumber({ name }, last) {
      // Tables without AUTOINCREMENT have no entry, and use the highest number of their rows.
      const isKept = database
        .prepare("SELECT sql LIKE '%AUTOINCREMENT%' FROM sqlite_schema WHERE name = ?")
        .pluck()
        .get(name);
      if (isKept !== 1) return;
      database.prepare('DELETE FROM sqlite_sequence WHERE name = ?').run(name);
      database.prepare('INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)').run(name, last);
    },
    async commit() {
      database.exec('COMMIT');
      await shut();
      if (isThere) return;
      await syncFile(opened);
      await rename(opened, path);
      await syncDirectory(directory);
    },
    async retire() {
      if (isOpen && database.inTransaction) database.exec('COMMIT');
      if (isOpen) database.pragma('wal_checkpoint(TRUNCATE)');
      await shut();
      const kept = `${path}.moved-${new Date().toISOString().replaceAll(/[-:]|\.\d+/g, '')}`;
      for (const end of ['', '-wal', '-shm']) {
        if (existsSync(`${path}${end}`)) await rename(`${path}${end}`, `${kept}${end}`);
      }
      await syncDirectory(directory);
      return kept;
    },
    async close() {
      if (isOpen && database.inTransaction) database.exec('ROLLBACK');
      await shut();
      if (!isThere) await removeDatabase(opened);
      lock[Symbol.dispose]();
    },
  };
}
