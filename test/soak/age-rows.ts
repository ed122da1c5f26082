import { join } from 'node:path';
import Database from 'better-sqlite3';
import pg from 'pg';
import type { Measured } from './figures.ts';

const dayMs = 24 * 3_600_000;
const remembered = 4 * dayMs;

/**
 * Makes what a server has written in a round older than it is kept, so that its purges remove it: ended requests, which are remembered
 * for three days, and counts by day, which are kept for more than a year.
 */
export async function ageRows({ data, database }: Measured, round: number): Promise<void> {
  const now = Date.now();
  // Each round has its own day: two rows of one day would be the same.
  const day = new Date(Date.UTC(1990, 0, round)).toISOString().slice(0, 10);
  const statements = [
    `UPDATE requests SET expires_at = expires_at - ${remembered}, created_at = created_at - ${remembered}
       WHERE expires_at < ${now} AND expires_at > ${now - dayMs}`,
    ...['pulls', 'day_counts'].map(
      table => `UPDATE ${table} SET day = '${day}' WHERE day > '2000-01-01'`,
    ),
  ];
  if (database !== undefined) {
    const client = new pg.Client(database);
    await client.connect();
    try {
      for (const text of statements) await changeRows(client, text);
    } finally {
      await client.end();
    }
    return;
  }
  const rows = new Database(join(data, 'sluice.db'), { timeout: 30_000 });
  try {
    for (const text of statements) rows.exec(text);
  } finally {
    rows.close();
  }
}

const deadlock = '40P01';

/** Changes rows of counts that the servers change meanwhile, in another order. */
async function changeRows(client: pg.Client, text: string): Promise<void> {
  for (;;) {
    try {
      await client.query(text);
      return;
    } catch (error) {
      if ((error as pg.DatabaseError).code !== deadlock) throw error;
    }
  }
}
