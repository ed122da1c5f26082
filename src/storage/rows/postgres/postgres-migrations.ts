import type { ClientBase } from 'pg';
import { Fault } from '../../../foundation/fault.ts';
import { postgresMigrations } from './postgres-schema.ts';

// Any number that no other user of the database takes.
const migratorLock = 7_583_190_233;

/** Brings the schema up to date, in one transaction. One process at a time does so: the others wait, and find it done. */
export async function migratePostgres(client: ClientBase): Promise<void> {
  await client.query('BEGIN');
  try {
    await client.query('SELECT pg_advisory_xact_lock($1)', [migratorLock]);
    await client.query('CREATE TABLE IF NOT EXISTS schema_version (version BIGINT NOT NULL)');
    // Where the replica that has the lock of the server is reached. Only PostgreSQL has replicas.
    await client.query(
      `CREATE TABLE IF NOT EXISTS leader ("only" BOOLEAN PRIMARY KEY DEFAULT true CHECK ("only"),
       address TEXT NOT NULL, keys TEXT NOT NULL, pid INTEGER NOT NULL)`,
    );
    const { rows } = await client.query('SELECT version FROM schema_version');
    const current = Number(rows[0]?.version ?? 0);
    if (current > postgresMigrations.length) {
      throw new Fault(
        'internal',
        `The database has schema ${current}, and this version supports up to ${postgresMigrations.length}: start the newer version that wrote it`,
      );
    }
    for (const step of postgresMigrations.slice(current)) await client.query(step);
    await client.query('DELETE FROM schema_version');
    await client.query('INSERT INTO schema_version VALUES ($1)', [postgresMigrations.length]);
    await client.query('COMMIT');
  } catch (error) {
    await client.query('ROLLBACK').catch(() => {});
    throw error;
  }
}
