import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { Fault } from '../../foundation/fault.ts';
import {
  claimLock,
  connectionOf,
  migratePostgres,
  startFaultOf,
  tryServerLock,
} from '../rows/postgres/index.ts';
import {
  columnList,
  isFull,
  mostRows,
  type RowsSide,
  type TableDescription,
  type TableRow,
} from './move-rows.ts';

const patienceMs = 10_000;
const pauseMs = 200;
/** What a row takes beside its text and bytes. */
const rowBytes = '64::bigint';

const arrays = { INTEGER: 'bigint[]', TEXT: 'text[]', BLOB: 'bytea[]' };
const noLimits =
  "SET statement_timeout = 0; SET idle_in_transaction_session_timeout = 0; SET lock_timeout = '30s'";

/**
 * Connects to PostgreSQL, which no server may use meanwhile, and brings its schema up to date.
 *
 * @param url `postgres://user:password@host:port/database`; no message repeats it
 * @param tables all tables of the schema
 * @param isSource true for the side that only gives its rows
 * @throws a `Fault` when the database cannot be reached, a server uses it, or a newer version wrote it
 */
export async function openPostgresSide(
  url: string,
  tables: readonly TableDescription[],
  isSource: boolean,
): Promise<RowsSide> {
  const { host, pathname } = new URL(url);
  const label = `PostgreSQL at ${host}${pathname}`;
  const client = new pg.Client({
    ...connectionOf(url),
    application_name: 'sluice migrate',
    types: { getTypeParser: parserOf },
  });
  // The next statement says that the connection has ended.
  client.on('error', () => {});
  const end = async () => client.end().catch(() => {});

  /** Runs a statement. Throws a fault with the name of the table for a refused value. */
  const run = async (text: string, values: unknown[] = [], table?: string): Promise<TableRow[]> => {
    try {
      return (await client.query<Cells>({ text, values, rowMode: 'array' })).rows;
    } catch (error) {
      throw faultOf(error, label, table);
    }
  };

  try {
    await client.connect();
    await lockFor(client, label);
    await client.query(noLimits);
    await migratePostgres(client);
    await client.query(`BEGIN ISOLATION LEVEL ${isSource ? 'REPEATABLE READ' : 'READ COMMITTED'}`);
    const names = tables.map(({ name }) => `"${name}"`).join(', ');
    // Commands that change rows wait.
    await client.query(`LOCK TABLE ${names} IN ${isSource ? 'SHARE' : 'EXCLUSIVE'} MODE`);
  } catch (error) {
    await end();
    throw faultOf(error, label);
  }

  const sequenceOf = async ({ name, numbered }: TableDescription): Promise<string | undefined> => {
    if (numbered === undefined) return undefined;
    const [row] = await run('SELECT pg_get_serial_sequence($1, $2)', [`"${name}"`, numbered]);
    return (row?.[0] ?? undefined) as string | undefined;
  };

  return {
    label,
    async *read(table) {
      await run(
        `DECLARE moved NO SCROLL CURSOR FOR SELECT ctid::text, ${sizeOf(table)} FROM "${table.name}"`,
      );
      const rows = `SELECT ${columnList(table)} FROM "${table.name}" WHERE ctid = ANY($1::tid[])`;
      for (;;) {
        const places = await run(`FETCH ${mostRows} FROM moved`);
        if (places.length === 0) break;
        for (const batch of batchesOf(places)) yield await run(rows, [batch]);
      }
      await run('CLOSE moved');
    },
    hasRows: async ({ name }) => (await run(`SELECT 1 FROM "${name}" LIMIT 1`)).length > 0,
    async prepare() {
      for (const { name } of tables) {
        await run(`ALTER TABLE "${name}" DISABLE TRIGGER USER`);
        await run(`DELETE FROM "${name}"`);
      }
    },
    async insert(table, rows) {
      const given = table.columns.map(({ kind }, at) => `$${at + 1}::${arrays[kind]}`).join(', ');
      await run(
        `INSERT INTO "${table.name}" (${columnList(table)}) SELECT * FROM unnest(${given})`,
        table.columns.map((_, at) => rows.map(row => row[at])),
        table.name,
      );
    },
    async complete() {
      for (const { name } of tables) await run(`ALTER TABLE "${name}" ENABLE TRIGGER USER`);
    },
    async lastNumber(table) {
      const sequence = await sequenceOf(table);
      if (sequence === undefined) return undefined;
      const [row] = await run(`SELECT last_value FROM ${sequence} WHERE is_called`);
      return row?.[0] as bigint | undefined;
    },
    async setLastNumber(table, last) {
      const sequence = await sequenceOf(table);
      if (sequence !== undefined && last > 0n) await run('SELECT setval($1, $2)', [sequence, last]);
    },
    async commit() {
      await run('COMMIT');
      // The next start plans its statements by what is in the tables.
      await run('ANALYZE').catch(() => {});
    },
    // Its operator removes the database.
    retire: async () => undefined,
    // The transaction ends with its connection.
    close: end,
  };
}

type Cells = (bigint | string | Uint8Array | null)[];

/** Returns the expression for about how much memory a row takes. */
function sizeOf({ columns }: TableDescription): string {
  const sizes = columns
    .filter(({ kind }) => kind !== 'INTEGER')
    .map(({ name }) => `coalesce(octet_length("${name}"), 0)::bigint`);
  return [rowBytes, ...sizes].join(' + ');
}

/** Divides the places of rows, so that the rows of each batch fit into memory. */
function* batchesOf(places: readonly TableRow[]): Generator<unknown[]> {
  let batch: unknown[] = [];
  let bytes = 0;
  for (const [place, size] of places) {
    batch.push(place);
    bytes += Number(size);
    if (!isFull(batch.length, bytes)) continue;
    yield batch;
    batch = [];
    bytes = 0;
  }
  if (batch.length > 0) yield batch;
}

/** The lock of a server, held by this connection. */
async function lockFor(client: pg.Client, label: string): Promise<void> {
  const deadline = performance.now() + patienceMs;
  while (!(await tryServerLock(client))) {
    if (performance.now() > deadline) {
      throw new Fault('unavailable', `A server uses ${label}. Stop it, and move the rows then`, {
        phase: 'store',
      });
    }
    await sleep(pauseMs);
  }
  // A server whose connection was cut off does not go on with what it knows.
  await claimLock(client, randomUUID());
}

function faultOf(error: unknown, label: string, table?: string): unknown {
  const fault = startFaultOf(error, label);
  if (fault instanceof Fault || !(error instanceof pg.DatabaseError)) return fault;
  const { message, detail } = error;
  const what = table === undefined ? 'a statement' : `rows of the table ${table}`;
  // It may also have all values of the row, with those that are secret.
  const isOfKey = detail?.startsWith('Key ') === true;
  const why = [message, ...(isOfKey ? [detail] : [])].join(': ');
  return new Fault('bad-request', `${label} rejects ${what} (${why}). Nothing was moved`, {
    phase: 'store',
    cause: error,
  });
}

/** Integers are exact. */
function parserOf(type: number, format?: 'text' | 'binary') {
  if (type === pg.types.builtins.INT8) return BigInt;
  return pg.types.getTypeParser(type, format as 'text');
}
