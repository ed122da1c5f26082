import { Fault } from '../../foundation/fault.ts';
import { OciSyntaxError } from '../../oci/naming.ts';

/** Reads the value of one field. Reports an invalid value as a bad request that names the field. */
export function inField<T>(field: string, read: () => T): T {
  try {
    return read();
  } catch (error) {
    if (!(error instanceof OciSyntaxError)) throw error;
    throw new Fault('bad-request', `'${field}': ${error.message}`, { phase: 'request' });
  }
}
