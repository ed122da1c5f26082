import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { ClientBase, QueryConfig } from 'pg';
import { Fault } from '../../../foundation/fault.ts';
import { stepsAfter, unreleasedSchema } from '../migrations.ts';
import { claimOf, tryTransactionLock } from './lock-session.ts';
import { postgresMigrations } from './postgres-schema.ts';
import { replicaTables } from './replica-list.ts';

// Any number that no other user of the database takes.
const migratorLock = 7_583_190_233;
const defaultPatienceMs = 10_000;
const pauseMs = 200;
// The longest that a timer can wait, 24 days: the driver has no way to lift its own limit for one statement.
const longestMs = 2 ** 31 - 1;

export interface MigrationUse {
  /** The fence of the server that migrates, see `ServerLock`. Absent for a command. */
  readonly fence?: string | undefined;
  /** How long a command waits for a server that may be migrating (ms). Default: 10 seconds. */
  readonly patienceMs?: number;
  /** The steps of the schema. Default: those of this version. */
  readonly steps?: readonly string[];
}

/**
 * Brings the schema up to date, in one transaction. One process at a time does so: the others wait, and find it done.
 *
 * @throws {@link Fault} when a newer version or a development version before the first release wrote the schema, or a server with an
 *   older one uses it
 */
export async function migratePostgres(
  client: ClientBase,
  { fence, patienceMs = defaultPatienceMs, steps = postgresMigrations }: MigrationUse = {},
): Promise<void> {
  const deadline = performance.now() + patienceMs;
  while (!(await isMigrated(client, steps, fence))) {
    if (performance.now() > deadline) throw usedByOlder();
    await sleep(pauseMs);
  }
}

/** Returns false when a server uses the older schema. */
async function isMigrated(
  client: ClientBase,
  steps: readonly string[],
  fence: string | undefined,
): Promise<boolean> {
  // The one that waited sees what the other one has done. The role or the database may have another default.
  await client.query('BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL lock_timeout = 0');
  try {
    await client.query('SELECT pg_advisory_xact_lock($1)', [migratorLock]);
    await requireReleased(client);
    await client.query('CREATE TABLE IF NOT EXISTS sluice_schema (version BIGINT NOT NULL)');
    // Where the replica that has the lock of the server is reached. Only PostgreSQL has replicas.
    await client.query(
      `CREATE TABLE IF NOT EXISTS leader ("only" BOOLEAN PRIMARY KEY DEFAULT true CHECK ("only"),
       address TEXT NOT NULL, keys TEXT NOT NULL, pid INTEGER NOT NULL);
       ${replicaTables}`,
    );
    const { rows } = await client.query('SELECT version FROM sluice_schema');
    const missing = stepsAfter(Number(rows[0]?.version ?? 0), steps);
    if (missing.length > 0) {
      if (fence === undefined && !(await tryTransactionLock(client))) {
        await client.query('ROLLBACK');
        return false;
      }
      // A server that has lost the lock for a moment, and has the older version, does not go on.
      await client.query(fence ?? claimOf(randomUUID()));
      // An index of many rows takes longer than a statement of a request may.
      await client.query('SET LOCAL statement_timeout = 0');
      for (const text of missing) {
        const unhurried: QueryConfig & { query_timeout: number } = {
          text,
          query_timeout: longestMs,
        };
        await client.query(unhurried);
      }
    }
    await client.query('DELETE FROM sluice_schema');
    await client.query('INSERT INTO sluice_schema VALUES ($1)', [steps.length]);
    await client.query('COMMIT');
    return true;
  } catch (error) {
    await client.query('ROLLBACK').catch(() => {});
    throw error;
  }
}

/** Development versions before the first release had their version in another table. */
async function requireReleased(client: ClientBase): Promise<void> {
  const { rows } = await client.query(
    `SELECT 1 WHERE to_regclass('schema_version') IS NOT NULL AND to_regclass('sluice_schema') IS NULL`,
  );
  if (rows.length === 0) return;
  throw unreleasedSchema('The database', 'name an empty one with SLUICE_DATABASE');
}

function usedByOlder(): Fault {
  return new Fault(
    'unavailable',
    'A server of an older version uses the database, whose schema this command would change: update the server first',
    { phase: 'store' },
  );
}
