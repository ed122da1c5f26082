import type { ClientBase } from 'pg';
import { postgresMigrations } from './postgres-schema.ts';

const versionSql = 'SELECT version FROM sluice_schema';
const undefinedTable = '42P01';

/** Returns how the schema of the rows differs from that of this version: a leader of another version has changed it. */
export async function compareSchema(client: ClientBase): Promise<'own' | 'newer' | 'older'> {
  try {
    const { rows } = await client.query(versionSql);
    const version = Number(rows[0]?.version ?? 0);
    if (version === postgresMigrations.length) return 'own';
    return version > postgresMigrations.length ? 'newer' : 'older';
  } catch (error) {
    // The first leader of an empty database has not made the table yet.
    if (error instanceof Error && 'code' in error && error.code === undefinedTable) return 'older';
    throw error;
  }
}
