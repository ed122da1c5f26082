import pg from 'pg';
import { faultOf, isWithoutConnection } from './postgres-errors.ts';

const connectMs = 5000;
const keepAliveMs = 10_000;
const mostConnections = 10;
// The request after a pause does not wait for a new connection.
const idleMs = 300_000;
// How long the pool asks for no further connection when PostgreSQL has none.
const restMs = 10_000;
// Every statement has an index for its rows, so PostgreSQL does not weigh reading whole tables, by statistics that are
// missing at first, and later those of the average repository. What has no index is still read.
const planning = ['enable_seqscan', 'enable_hashjoin', 'enable_mergejoin', 'jit'].map(
  setting => `SET ${setting} = off`,
);
// Whoever locks a table, such as REINDEX, delays the changes of that table, and not those that wait for their turn.
const settings = [...planning, "SET lock_timeout = '2s'"].join('; ');

// The driver prefers what the address says, and these must be those of Sluice.
const own = [
  'application_name',
  'statement_timeout',
  'query_timeout',
  'idle_in_transaction_session_timeout',
];

/** Returns what all connections have in common. */
export function connectionOf(url: string) {
  return {
    connectionString: withoutOwn(url),
    connectionTimeoutMillis: connectMs,
    keepAlive: true,
    keepAliveInitialDelayMillis: keepAliveMs,
  };
}

function withoutOwn(url: string): string {
  const [place = '', ...rest] = url.split('?');
  const parameters = new URLSearchParams(rest.join('?'));
  if (!own.some(name => parameters.has(name))) return url;
  for (const name of own) parameters.delete(name);
  return `${place}?${parameters}`;
}

/** Connections to PostgreSQL, which changes and reads take turns with. */
export interface PostgresPool {
  readonly pool: pg.Pool;
  /**
   * Returns a connection, and waits for one. Its user releases it.
   *
   * @throws `Fault` (503) when there is none in time
   */
  connect(): Promise<pg.PoolClient>;
}

/** Creates a pool that opens connections when they are needed. */
export function createPostgresPool(config: pg.PoolConfig): PostgresPool {
  const pool = new pg.Pool({ ...config, max: mostConnections, idleTimeoutMillis: idleMs });
  const open = new Set<pg.PoolClient>();
  let resting: NodeJS.Timeout | undefined;
  // An idle connection that breaks is replaced when it is needed.
  pool.on('error', () => {});
  pool.on('connect', client => {
    open.add(client);
    // Its response comes before those of all other statements. A connection that breaks meanwhile breaks these too.
    client.query(settings).catch(() => {});
    // Between two statements, too, a connection may break, and before the first one. The next statement says so.
    client.on('error', () => {});
  });
  pool.on('remove', client => open.delete(client));

  /** Lets requests wait for the connections that there are. */
  const rest = () => {
    pool.options.max = open.size;
    clearTimeout(resting);
    resting = setTimeout(() => {
      pool.options.max = mostConnections;
    }, restMs).unref();
  };
  return {
    pool,
    async connect() {
      try {
        return await pool.connect().catch(error => {
          if (!isWithoutConnection(error) || open.size === 0) throw error;
          rest();
          return pool.connect();
        });
      } catch (error) {
        throw faultOf(error);
      }
    },
  };
}
