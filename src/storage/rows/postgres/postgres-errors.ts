import { Fault } from '../../../foundation/fault.ts';

const retryAfterSeconds = 5;

// A transaction that could not be in any order with the others, a deadlock, and a lock that did not become free in the
// time of the role: nothing was changed.
const conflicts = new Set(['40001', '40P01', '55P03']);

// Statements of stores do not divide.
const ofFence = '22012';
const withoutConnection = '53300';

// Codes of five characters come from the server. Class 57P: it stops, or starts. Class 08: the connection. 53300: no
// connection is free. 25006: it is a standby. 25P03 and 25P04: it ended a transaction that took too long. 28 and 3D000:
// the login and the database, which were right when the server started.
const unavailable = /^(?:57P\d\d|08\w{3}|53\w{3}|57014|25006|25P0[34]|28\w{3}|3D000)$/;
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
  return conflicts.has(codeOf(error));
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
export function isWithoutConnection(error: unknown): boolean {
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
  if (!isOfConnection && !unavailable.test(code)) return error;
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
