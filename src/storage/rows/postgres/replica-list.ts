import type pg from 'pg';
import { holderSql, lockClient, readLeader, replicaName, serverLockKey } from './lock-session.ts';
import { startFaultOf } from './postgres-connection.ts';

/** What a replica says of itself. */
export interface ReplicaSelf {
  /** Where the other replicas reach it. */
  readonly address: string;
  readonly version: string;
}

/** A replica that is connected to the database. */
export interface ListedReplica {
  /** Its process in PostgreSQL. */
  readonly pid: number;
  /** Undefined for a replica of an older version, and for a server without replicas. */
  readonly address: string | undefined;
  readonly version: string | undefined;
  readonly role: 'leader' | 'follower' | 'wrong clock' | 'older version';
  /** When its process started, by the clock of the database. */
  readonly startedAt: Date | undefined;
  /** When it asked the database last. */
  readonly seenAt: Date;
}

/** Name of the connections of replicas whose clock differs from that of the database: they do not lead. */
export const lateReplica = 'sluice replica with a wrong clock';
/** Name of the connections of replicas whose version is older than the schema of the rows: they do not lead. */
export const olderReplica = 'sluice replica of an older version';

/**
 * Creates the tables of the replicas that are connected, and of the one that leads next. A row belongs to a session of
 * PostgreSQL, and means nothing after its end.
 */
export const replicaTables = `
  CREATE TABLE IF NOT EXISTS replicas (pid INTEGER PRIMARY KEY, connected_at TIMESTAMPTZ NOT NULL,
    address TEXT NOT NULL, version TEXT NOT NULL, started_at TIMESTAMPTZ NOT NULL);
  CREATE TABLE IF NOT EXISTS next_leader ("only" BOOLEAN PRIMARY KEY DEFAULT true CHECK ("only"),
    pid INTEGER NOT NULL, connected_at TIMESTAMPTZ NOT NULL, chosen_at TIMESTAMPTZ NOT NULL)`;

const ofSite = 'a.datname = current_database() AND a.usename = current_user';
// A replica that waits asks twice a second. PostgreSQL may still list one whose machine has disappeared.
const isAwake = "a.state_change > clock_timestamp() - interval '3 seconds'";
const sameSession = (row: string) => `a.pid = ${row}.pid AND a.backend_start = ${row}.connected_at`;
// Longer than a handover takes. Afterwards, any replica may lead.
const isFresh = "n.chosen_at > clock_timestamp() - interval '10 seconds'";

const hasTables =
  "SELECT to_regclass('replicas') IS NOT NULL AND to_regclass('next_leader') IS NOT NULL AS made";
// A replica whose session has ended may still run, without its database. It learns from the next leader who leads.
const mostKept = 32;
const removeEnded = `DELETE FROM replicas r
  WHERE NOT EXISTS (SELECT 1 FROM pg_stat_activity a WHERE ${sameSession('r')})
  AND (r.address = $1 OR (SELECT count(*) FROM replicas o WHERE o.connected_at > r.connected_at) >= ${mostKept})`;
const unheardSql = `SELECT address FROM leader WHERE keys = $1 UNION SELECT r.address FROM replicas r
  WHERE NOT EXISTS (SELECT 1 FROM pg_stat_activity a WHERE ${sameSession('r')} AND ${isAwake}) LIMIT ${mostKept}`;
const insertSelf = `INSERT INTO replicas (pid, connected_at, address, version, started_at)
  SELECT a.pid, a.backend_start, $1, $2, clock_timestamp() - $3 * interval '1 second'
  FROM pg_stat_activity a WHERE a.pid = pg_backend_pid()
  ON CONFLICT (pid) DO UPDATE SET connected_at = excluded.connected_at, address = excluded.address,
    version = excluded.version, started_at = excluded.started_at`;
const awakeSql = `SELECT 1 FROM pg_stat_activity a
  WHERE ${sameSession('n')} AND ${isAwake} AND a.application_name = '${replicaName}'`;
const chosenSql = `SELECT n.pid FROM next_leader n WHERE ${isFresh} AND EXISTS (${awakeSql})`;
const chooseSql = `INSERT INTO next_leader AS n (pid, connected_at, chosen_at)
  SELECT a.pid, a.backend_start, clock_timestamp() FROM pg_stat_activity a
  WHERE a.pid = $1 AND ${ofSite} AND a.application_name = '${replicaName}' AND ${isAwake}
  ON CONFLICT ("only") DO UPDATE SET pid = excluded.pid, connected_at = excluded.connected_at, chosen_at = excluded.chosen_at
  WHERE n.pid = excluded.pid OR NOT (${isFresh}) OR NOT EXISTS (${awakeSql}) RETURNING 1`;
const newestSql = `SELECT r.pid FROM replicas r JOIN pg_stat_activity a ON ${sameSession('r')}
  WHERE ${ofSite} AND a.application_name = '${replicaName}' AND ${isAwake} AND a.pid <> pg_backend_pid()
  ORDER BY r.started_at DESC LIMIT 1`;
// More than a site has.
const most = 1000;
const listSql = `SELECT a.pid, r.address, r.version, r.started_at AS "startedAt", a.state_change AS "seenAt",
    CASE WHEN a.pid IN (${holderSql}) THEN 'leader' WHEN a.application_name = '${lateReplica}' THEN 'wrong clock'
      WHEN a.application_name = '${olderReplica}' THEN 'older version'
      ELSE 'follower' END AS role
  FROM pg_stat_activity a LEFT JOIN replicas r ON ${sameSession('r')}
  WHERE ${ofSite} AND (a.application_name IN ('${replicaName}', '${lateReplica}', '${olderReplica}') OR a.pid IN (${holderSql}))
  ORDER BY r.address, a.backend_start LIMIT ${most}`;

/** Enters the session of a replica. Returns false while no leader has created the tables. */
export async function enterReplica(
  client: pg.ClientBase,
  { address, version }: ReplicaSelf,
): Promise<boolean> {
  if ((await client.query(hasTables)).rows[0]?.made !== true) return false;
  await client.query(removeEnded, [address]);
  await client.query(insertSelf, [address, version, process.uptime()]);
  return true;
}

/**
 * Returns the addresses of the replica that led before, if it has these keys, and of those that have not asked the database
 * for some seconds: they may not hear from it who leads.
 */
export async function unheardReplicas(client: pg.ClientBase, keys: string): Promise<string[]> {
  return (await client.query(unheardSql, [keys])).rows.map(({ address }) => String(address));
}

/** Returns the process of the replica that leads next; undefined when any replica may. */
export async function chosenReplica(client: pg.ClientBase): Promise<number | undefined> {
  return (await client.query(chosenSql)).rows[0]?.pid;
}

/**
 * Notes that a replica leads next. Returns false when it has ended, or cannot lead, or another one was chosen a few seconds
 * ago.
 */
async function chooseReplica(client: pg.ClientBase, pid: number): Promise<boolean> {
  return (await client.query(chooseSql, [pid])).rowCount === 1;
}

/**
 * Chooses the replica that started last, unless one is chosen already: during an update, the lead goes to the new version
 * at once, and not through the old ones.
 */
export async function chooseNewest(client: pg.ClientBase): Promise<void> {
  const pid = (await client.query(newestSql)).rows[0]?.pid;
  if (pid !== undefined) await chooseReplica(client, pid);
}

/** Lets any replica lead after this one. */
export async function endChoice(client: pg.ClientBase): Promise<void> {
  await client.query('DELETE FROM next_leader');
}

/** Returns the replicas that are connected to the database, by address. */
async function listReplicas(client: pg.ClientBase): Promise<ListedReplica[]> {
  if ((await client.query(hasTables)).rows[0]?.made !== true) return [];
  return (await client.query(listSql, [serverLockKey])).rows.map(row => ({
    ...row,
    address: row.address ?? undefined,
    version: row.version ?? undefined,
    startedAt: row.startedAt ?? undefined,
  }));
}

/** The replicas of a site, for a command. */
export interface ReplicaList extends AsyncDisposable {
  list(): Promise<ListedReplica[]>;
  /** See {@link chooseReplica}. */
  choose(pid: number): Promise<boolean>;
  /** Returns the address of the replica that leads and takes requests; undefined while none does. */
  leader(): Promise<string | undefined>;
}

/**
 * Connects to the database of a site.
 *
 * @throws `Fault` when that is not possible
 */
export async function openReplicaList(url: string): Promise<ReplicaList> {
  const client = lockClient(url, 'sluice');
  // The next query says so.
  client.on('error', () => {});
  const withFault = async <T>(work: Promise<T>): Promise<T> => {
    try {
      return await work;
    } catch (error) {
      throw startFaultOf(error);
    }
  };
  await withFault(client.connect());
  return {
    list: () => withFault(listReplicas(client)),
    choose: pid => withFault(chooseReplica(client, pid)),
    leader: async () => (await withFault(readLeader(client)))?.address,
    [Symbol.asyncDispose]: () => client.end().catch(() => {}),
  };
}
