import type { Duplex } from 'node:stream';
import pg from 'pg';
import { Fault } from '../../../foundation/fault.ts';

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
const ownParameters = [
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
  if (!ownParameters.some(name => parameters.has(name))) return url;
  for (const name of ownParameters) parameters.delete(name);
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
  /** Ends all connections at once, with what runs on them. */
  breakAll(): void;
}

/** The driver waits for running statements before it ends a connection. */
export interface WithSocket {
  readonly connection?: { readonly stream: Duplex };
}

/**
 * Creates a pool that opens connections when they are needed.
 *
 * @param most connections at once. Default: 10
 * @param more statements that each connection begins with
 */
export function createPostgresPool(
  config: pg.PoolConfig,
  most = mostConnections,
  more: readonly string[] = [],
): PostgresPool {
  const pool = new pg.Pool({ ...config, max: most, idleTimeoutMillis: idleMs });
  const first = [settings, ...more].join('; ');
  const open = new Set<pg.PoolClient & WithSocket>();
  let resting: NodeJS.Timeout | undefined;
  // An idle connection that breaks is replaced when it is needed.
  pool.on('error', () => {});
  pool.on('connect', client => {
    open.add(client);
    // Its response comes before those of all other statements. A connection that breaks meanwhile breaks these too.
    client.query(first).catch(() => {});
    // Between two statements, too, a connection may break, and before the first one. The next statement says so.
    client.on('error', () => {});
  });
  pool.on('remove', client => open.delete(client));

  /** Lets requests wait for the connections that there are. */
  const rest = () => {
    pool.options.max = open.size;
    clearTimeout(resting);
    resting = setTimeout(() => {
      pool.options.max = most;
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
    breakAll() {
      for (const { connection } of open) connection?.stream.destroy();
    },
  };
}

const retryAfterSeconds = 5;

// A transaction that could not be in any order with the others, a deadlock, and a lock that did not become free in the
// time of the role: nothing was changed.
const conflictCodes = new Set(['40001', '40P01', '55P03']);

// Statements of stores do not divide.
const ofFence = '22012';
const withoutConnection = '53300';

// Codes of five characters come from the server. Class 57P: it stops, or starts. Class 08: the connection. 53300: no
// connection is free. 25006: it is a standby. 25P03 and 25P04: it ended a transaction that took too long. 28 and 3D000:
// the login and the database, which were right when the server started.
const unavailableCodes = /^(?:57P\d\d|08\w{3}|53\w{3}|57014|25006|25P0[34]|28\w{3}|3D000)$/;
const ofConnection = /^(?:57P|08|25006|25P0[34])/;

// Such as EPIPE.
const ofSystem = /^E(?:[A-Z]+|AI_AGAIN)$/;

// The driver gives these errors no code.
const endedConnection =
  /^(?:Connection terminated|timeout e|Query read timeout|Client (?:has encountered a connection error|was closed))/i;

// Of Node, for the certificate of the server, and of OpenSSL.
const ofCertificate =
  /^(?:CERT_|UNABLE_TO_|DEPTH_ZERO_|SELF_SIGNED_|HOSTNAME_MISMATCH|INVALID_CA|INVALID_PURPOSE|ERR_TLS_)/;
const ofTls = /^ERR_SSL_/;

/** True when the change did nothing, because of another change. */
export function isConflict(error: unknown): boolean {
  return conflictCodes.has(codeOf(error));
}

/** True when somebody else held a lock on a table or row for too long, which no order of our changes would help. */
export function isLockTimeout(error: unknown): boolean {
  return codeOf(error) === '55P03';
}

/** True when the fence of the server, see `ServerLock`, ended the transaction. */
export function isFenced(error: unknown): boolean {
  return codeOf(error) === ofFence;
}

/** True when PostgreSQL, or its role, has no connection for another client. */
function isWithoutConnection(error: unknown): boolean {
  return codeOf(error) === withoutConnection;
}

/** True when the connection is not usable any more, or may not be. */
export function isBroken(error: unknown): boolean {
  if (error instanceof Fault) return false;
  const code = codeOf(error);
  return !/^[0-9A-Z]{5}$/.test(code) || ofSystem.test(code) || ofConnection.test(code);
}

export function isUnavailable(error: unknown): boolean {
  return error instanceof Fault && error.kind === 'unavailable';
}

/** Returns errors of the connection as a fault that names no address and no password. */
export function faultOf(error: unknown): unknown {
  if (error instanceof Fault) return error;
  const code = codeOf(error);
  if (isConflict(error)) {
    return new Fault(
      'unavailable',
      'Too many changes of the same rows came at once, and nothing was changed: try again in a moment',
      { phase: 'store', retryAfterSeconds, cause: error },
    );
  }
  if (isOfFile(error)) {
    return new Fault(
      'internal',
      `Cannot read a certificate or key of the database (${code}): correct sslrootcert, sslcert and sslkey in SLUICE_DATABASE`,
      { phase: 'store', cause: error },
    );
  }
  const isOfConnection =
    [ofSystem, ofCertificate, ofTls].some(codes => codes.test(code)) ||
    lacksTls(error) ||
    (error instanceof Error && endedConnection.test(error.message));
  if (!isOfConnection && !unavailableCodes.test(code)) return error;
  return new Fault(
    'unavailable',
    `The database does not answer (${code || 'the connection ended'}): try again in a moment. The operator finds the state of PostgreSQL in its log`,
    { phase: 'store', retryAfterSeconds, cause: error },
  );
}

/**
 * Returns the same for the start of a server or command, where a wrong login is a wrong setting.
 *
 * @param where names the setting, or the database
 */
export function startFaultOf(error: unknown, where = 'SLUICE_DATABASE'): unknown {
  const fault = faultOf(error);
  const cause = fault instanceof Fault ? (fault.cause ?? fault) : fault;
  const why = wrongSetting(cause, where);
  return why === undefined ? fault : new Fault('internal', why, { phase: 'store', cause });
}

function wrongSetting(cause: unknown, where: string): string | undefined {
  const code = codeOf(cause);
  if (code === 'ERR_INVALID_URL' || cause instanceof URIError) {
    return `The address in ${where} is not a URL: write postgres://user:password@host:port/database, and special characters of the password as %40 for @`;
  }
  if (code === '3D000') {
    return `The database in ${where} does not exist (3D000): create it, or correct its name`;
  }
  if (/^28\w{3}$/.test(code)) {
    return `PostgreSQL rejects the login in ${where} (${code}): correct the user and the password, and look at pg_hba.conf`;
  }
  if (code === '42501' && cause instanceof Error) {
    return `The user in ${where} lacks a right (42501: ${cause.message}): make it the owner of the database`;
  }
  if (lacksTls(cause)) {
    return `PostgreSQL in ${where} has no TLS, which its sslmode asks for: set ssl = on there, or sslmode=disable for a database that only a private network leads to`;
  }
  if (ofCertificate.test(code)) {
    return `PostgreSQL in ${where} has a certificate that Sluice does not trust (${code}): name its authority in sslrootcert, and the host as the certificate does`;
  }
  if (ofTls.test(code)) {
    return `PostgreSQL in ${where} and Sluice agree on no TLS (${code}): correct sslmode, sslcert and sslkey`;
  }
  if (code === '25006') {
    return `The PostgreSQL server in ${where} accepts no changes (25006): name the primary server`;
  }
  return undefined;
}

/** True for a server without TLS. The driver gives this error no code. */
function lacksTls(error: unknown): boolean {
  return error instanceof Error && error.message === 'The server does not support SSL connections';
}

const fileCodes = new Set(['ENOENT', 'EACCES', 'EPERM', 'EISDIR']);

/** True for a file that the address names. A socket may have the same codes, when it is connected. */
function isOfFile(error: unknown): boolean {
  if (!fileCodes.has(codeOf(error))) return false;
  return !(error instanceof Error && 'syscall' in error && error.syscall === 'connect');
}

function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error ? String(error.code) : '';
}
