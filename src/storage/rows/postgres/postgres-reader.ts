import { Fault } from '../../../foundation/fault.ts';
import type { RowDatabase } from '../row-database.ts';
import { readGathered } from './gathered-reads.ts';
import { createReadPool, readTogether, readWith } from './postgres-database.ts';
import { PostgresCall, postgresStatement } from './postgres-statements.ts';
import { createSharedReads } from './shared-reads.ts';

/** PostgreSQL for a server that only reads: it has no lock, and changes nothing. */
export interface PostgresReader extends RowDatabase {
  /** Closes the connections. */
  end(): Promise<void>;
}

// A read by an index takes less than a millisecond, so few connections carry thousands of them in a second.
const mostConnections = 4;
// A read that takes longer is left to the server that leads.
const times = { connectMs: 2000, statementMs: 1500, responseMs: 2000 };
// PostgreSQL refuses changes on these connections.
const settings = [
  'SET default_transaction_read_only = on',
  "SET default_transaction_isolation = 'read committed'",
];

/**
 * Returns the database of a site to read from. Connects when something is read.
 *
 * @param url as for `openPostgres`
 */
export function openPostgresReader(url: string): PostgresReader {
  const { pool, connect } = createReadPool(url, {
    ...times,
    name: 'sluice reads',
    most: mostConnections,
    settings,
  });
  const shared = createSharedReads(calls =>
    readGathered(sent => readTogether(connect, sent), calls),
  );
  const refuse = async () => {
    throw new Fault('unavailable', 'This replica does not lead, and changes no rows', {
      phase: 'store',
    });
  };
  return {
    sql: postgresStatement,
    read: call => (call instanceof PostgresCall ? shared(call) : readWith(connect, call)),
    write: refuse,
    commit: refuse,
    async settle() {},
    end: () => pool.end(),
  };
}
