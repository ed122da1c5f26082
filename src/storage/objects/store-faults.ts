import { Fault } from '../../foundation/fault.ts';

const retryAfterSeconds = 5;

/** What an error of the SDK says about itself. */
interface SdkError {
  readonly name?: unknown;
  readonly code?: unknown;
  readonly $metadata?: { readonly httpStatusCode?: number };
}

/** True when the store has no object of this name. */
export function isAbsent(error: unknown): boolean {
  return ['NoSuchKey', 'NotFound'].includes(nameOf(error));
}

/** Returns a failure of the store as a fault (503) that names no address and no key. */
export function faultOf(error: unknown): Fault {
  if (error instanceof Fault) return error;
  return new Fault(
    'unavailable',
    `The object store of the service does not answer as it should (${nameOf(error)}): try again in a moment. The operator finds the reason at the store in SLUICE_CONTENT`,
    { phase: 'store', retryAfterSeconds, cause: error },
  );
}

/** The store answered with other bytes of an object than those that were requested. */
export class WrongRange extends Error {
  override readonly name = 'WrongRange';
}

/** True when an upload has ended already. */
export function isEndedUpload(error: unknown): boolean {
  return nameOf(error) === 'NoSuchUpload';
}

/** Returns the same for the start of a server or command, where a refusal is a wrong setting. */
export function startFaultOf(error: unknown): Fault {
  const why = wrongSetting(error);
  if (why === undefined) return faultOf(error);
  return new Fault('internal', `${why} (${nameOf(error)})`, { phase: 'store', cause: error });
}

function wrongSetting(error: unknown): string | undefined {
  const name = nameOf(error);
  const status = (error as SdkError).$metadata?.httpStatusCode;
  if (name === 'NoSuchBucket') {
    return 'The bucket in SLUICE_CONTENT does not exist: create it, or correct its name';
  }
  if (name === 'CredentialsProviderError') {
    return 'SLUICE_CONTENT names an object store, and there are no credentials for it: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or another source of credentials of the AWS SDK';
  }
  if (status === 401 || status === 403) {
    return 'The object store rejects the credentials for the bucket in SLUICE_CONTENT: correct AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or allow them to list, read, write and delete objects in it';
  }
  if (status === 301) {
    return 'The bucket in SLUICE_CONTENT is in another region: correct SLUICE_S3_REGION';
  }
  return undefined;
}

function nameOf(error: unknown): string {
  const { code, name } = error as SdkError;
  if (typeof code === 'string' && /^E[A-Z_]+$/.test(code)) return code;
  return typeof name === 'string' ? name : 'unknown';
}
