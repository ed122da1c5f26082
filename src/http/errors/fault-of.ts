import { databaseLocked, Fault, isDatabaseBusy, isDiskFull } from '../../foundation/fault.ts';
import { OciSyntaxError } from '../../oci/naming.ts';
import { RelayError } from '../registry/blobs/relay.ts';

/** Returns the fault that reports an error. An unexpected error becomes an internal fault, without its details. */
export function faultOf(error: unknown, errorId: string): Fault {
  if (error instanceof Fault) return error;
  if (error instanceof OciSyntaxError) {
    const isDocument = ['manifest', 'index', 'config'].includes(error.subject);
    const kind = isDocument
      ? 'manifest-invalid'
      : error.subject === 'digest'
        ? 'digest-invalid'
        : 'bad-request';
    return new Fault(kind, error.message, { phase: isDocument ? 'augment' : 'request' });
  }
  if (error instanceof RelayError) {
    const message = `The transfer was aborted, so that no damaged blob looks complete: ${error.message}`;
    return new Fault('upstream', message, { phase: 'upstream', cause: error });
  }
  if (isDiskFull(error)) {
    return new Fault(
      'storage-full',
      'The disk of the service is full, and nothing of this request was stored: ask the operator to free disk space',
      { phase: 'store', cause: error },
    );
  }
  if (isDatabaseBusy(error)) return databaseLocked(error);
  return new Fault(
    'internal',
    `Something went wrong inside the service: report it to its operator with the error id ${errorId}`,
    { cause: error },
  );
}

/** Returns the headers of a fault. They are the same in both dialects. */
export function faultHeaders(fault: Fault): Record<string, string> {
  return {
    ...fault.headers,
    ...(fault.retryAfterSeconds === undefined
      ? {}
      : { 'retry-after': String(Math.max(1, Math.ceil(fault.retryAfterSeconds))) }),
  };
}

/** Returns an error body of the JSON API: the message and the error id, under which the log has the details. */
export function apiErrorBody(fault: Fault, errorId: string): { message: string } {
  return { message: `${fault.message} - Error ID: ${errorId}` };
}

/** Returns an error body of the registry API. Source: OCI distribution specification 1.1, Error codes. */
export function registryErrorBody(fault: Fault, errorId: string): object {
  const detail = { errorId, ...(fault.phase === undefined ? {} : { phase: fault.phase }) };
  return { errors: [{ code: fault.code, message: fault.message, detail }] };
}
