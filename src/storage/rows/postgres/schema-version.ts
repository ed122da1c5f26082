import type { ClientBase } from 'pg';
import { postgresMigrations } from './postgres-schema.ts';

const versionSql = 'SELECT version FROM sluice_schema';
const undefinedTable = '42P01';

/** Returns true when the rows have the schema of this version. A leader of another version has changed it otherwise. */
export async function hasOwnSchema(client: ClientBase): Promise<boolean> {
  try {
    const { rows } = await client.query(versionSql);
    return Number(rows[0]?.version) === postgresMigrations.length;
  } catch (error) {
    // The first leader of an empty database has not made the table yet.
    if (error instanceof Error && 'code' in error && error.code === undefinedTable) return false;
    throw error;
  }
}
