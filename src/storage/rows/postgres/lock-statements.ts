import type pg from 'pg';

/** The replica that has the lock. */
export interface Leader {
  /** Where the other replicas reach it. */
  readonly address: string;
  /** Which keys it uses, see `ReplicaKeys`. */
  readonly keys: string;
}

/** Name of the connections through which a server changes rows. */
export const serverName = 'sluice server';

// Any number that no other user of the database takes.
const key = 7_583_190_234;
const undefinedTable = '42P01';

const tryLock = 'SELECT pg_try_advisory_lock($1)::int AS locked';
const tryLockForTransaction = 'SELECT pg_try_advisory_xact_lock($1)::int AS locked';
const holder = `SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 1
  AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
  AND (classid::bigint << 32) + objid::bigint = $1`;
const findLeader = `SELECT address, keys FROM leader WHERE pid IN (${holder})`;
const insertLeader = `INSERT INTO leader (address, keys, pid) VALUES ($1, $2, pg_backend_pid())
  ON CONFLICT ("only") DO UPDATE SET address = excluded.address, keys = excluded.keys, pid = excluded.pid`;
// The network of the server that had the lock before may be cut off. Its transactions would wait for it.
const endOthers = `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
  WHERE datname = current_database() AND usename = current_user AND application_name = '${serverName}'`;

/** Takes the lock for a connection, until it ends. Returns false when another one has it. */
export async function tryServerLock(client: pg.ClientBase): Promise<boolean> {
  return (await client.query(tryLock, [key])).rows[0]?.locked === 1;
}

/** Takes the lock until the transaction ends. Returns false when another connection has it. */
export async function tryTransactionLock(client: pg.ClientBase): Promise<boolean> {
  return (await client.query(tryLockForTransaction, [key])).rows[0]?.locked === 1;
}

/** Returns the processes of PostgreSQL whose connections have the lock: one, or none. */
export async function holdersOf(client: pg.ClientBase): Promise<number[]> {
  return (await client.query(holder, [key])).rows.map(({ pid }) => Number(pid));
}

/** Returns the replica that has the lock; undefined before it has announced itself. */
export async function readLeader(client: pg.ClientBase): Promise<Leader | undefined> {
  try {
    return (await client.query(findLeader, [key])).rows[0];
  } catch (error) {
    // The first leader of an empty database has not made the table yet.
    if (error instanceof Error && 'code' in error && error.code === undefinedTable)
      return undefined;
    throw error;
  }
}

export async function writeLeader(client: pg.ClientBase, { address, keys }: Leader): Promise<void> {
  await client.query(insertLeader, [address, keys]);
}

/**
 * Returns the statements, for a transaction with READ COMMITTED, that end the connections of the server that had the lock
 * before, and enter who has it now. They wait for the transactions that began with the fence of another server. Only the
 * connection that has the lock runs them.
 *
 * @param id a UUID, another one for each server
 */
export function claimOf(id: string): string {
  return `${endOthers};
    CREATE TABLE IF NOT EXISTS lock_holder
      ("only" BOOLEAN PRIMARY KEY DEFAULT true CHECK ("only"), server TEXT NOT NULL);
    LOCK TABLE lock_holder IN EXCLUSIVE MODE;
    INSERT INTO lock_holder (server) VALUES ('${id}') ON CONFLICT ("only") DO UPDATE SET server = excluded.server`;
}

/** Enters that the server with this id has the lock, and ends the connections of the one before. */
export async function claimLock(client: pg.ClientBase, id: string): Promise<void> {
  await client.query(`BEGIN ISOLATION LEVEL READ COMMITTED; ${claimOf(id)}; COMMIT`);
}

/** Returns false when another server has had the lock since {@link claimLock}. */
export async function isClaimedBy(client: pg.ClientBase, id: string): Promise<boolean> {
  return (await client.query('SELECT 1 FROM lock_holder WHERE server = $1', [id])).rowCount === 1;
}

/**
 * Returns statements for the beginning of a transaction. They fail when another server has taken the lock, and no server
 * takes it between them and the end of the transaction. LOCK comes first: a serializable transaction sees the rows of the
 * moment of its first SELECT.
 */
export function fenceOf(id: string): string {
  return `LOCK TABLE lock_holder IN ROW SHARE MODE; SELECT 1 / count(*) FROM lock_holder WHERE server = '${id}'`;
}
