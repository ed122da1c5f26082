import { Fault, isDiskFull } from '../../foundation/fault.ts';

/**
 * Returns an error of a start that the operator can remove as a {@link Fault} that says how; other errors as they are.
 *
 * @param data the data directory
 */
export function startFaultOf(error: unknown, data: string): unknown {
  if (error instanceof Fault || !(error instanceof Error) || !('code' in error)) return error;
  const what = whatToDo(error, String(error.code), data);
  return what === undefined ? error : new Fault('internal', what, { phase: 'store', cause: error });
}

function whatToDo(error: Error, code: string, data: string): string | undefined {
  const path = 'path' in error && typeof error.path === 'string' ? error.path : data;
  const orOther = 'or name another directory with SLUICE_DATA';
  if (/^SQLITE_(?:NOTADB|CORRUPT)/.test(code)) {
    return `The database sluice.db in ${data} is damaged (${code}): restore a backup into a new directory with 'sluice restore', and name it with SLUICE_DATA`;
  }
  if (isDiskFull(error)) {
    return `The disk of ${data} is full (${code}): free space, ${orOther}`;
  }
  if (/^(?:EROFS|SQLITE_READONLY)/.test(code)) {
    return `The server cannot write ${path}, which is read-only (${code}): mount ${data} for writing, ${orOther}`;
  }
  if (/^(?:EACCES|EPERM|SQLITE_(?:CANTOPEN|PERM))/.test(code)) {
    const user = `${process.getuid?.()}:${process.getgid?.()}`;
    return `The user of the server, ${user}, may not use ${path} (${code}): make this user the owner of ${data} and of all files in it ('chown -R ${user}'), run the server as their owner (for a container: 'docker run --user UID:GID'), ${orOther}`;
  }
  if (code === 'ENOTDIR') {
    return `The server cannot use ${path} (${code}): a file has the place of one of its directories. Remove that file, ${orOther}`;
  }
  if (/^(?:EIO|SQLITE_IOERR)/.test(code)) {
    return `The disk of ${data} cannot be read or written (${code}): look for errors of the disk in the log of the kernel, ${orOther}`;
  }
  return undefined;
}
