interface FaultDialects {
  readonly status: number;
  readonly apiStatus?: number;
  readonly code: string;
}

/**
 * Every failure that a caller may see: one table with its HTTP status and its code in the registry
 * dialect (OCI distribution specification, Error codes; Docker adds UNAVAILABLE and UNKNOWN).
 * `apiStatus` is the status in the JSON API where it differs: clients of that API repeat a request
 * after 502, 503 or 504, and do not show the message.
 */
const kinds = {
  'bad-request': { status: 400, code: 'UNSUPPORTED' },
  'name-invalid': { status: 400, code: 'NAME_INVALID' },
  'digest-invalid': { status: 400, code: 'DIGEST_INVALID' },
  'size-invalid': { status: 400, code: 'SIZE_INVALID' },
  'page-size-invalid': { status: 400, code: 'PAGINATION_NUMBER_INVALID' },
  'manifest-invalid': { status: 400, code: 'MANIFEST_INVALID' },
  unauthorized: { status: 401, code: 'UNAUTHORIZED' },
  denied: { status: 403, code: 'DENIED' },
  'not-found': { status: 404, code: 'NAME_UNKNOWN' },
  'manifest-unknown': { status: 404, code: 'MANIFEST_UNKNOWN' },
  'blob-unknown': { status: 404, code: 'BLOB_UNKNOWN' },
  'upload-unknown': { status: 404, code: 'BLOB_UPLOAD_UNKNOWN' },
  'manifest-blob-unknown': { status: 404, code: 'MANIFEST_BLOB_UNKNOWN' },
  'method-not-allowed': { status: 405, code: 'UNSUPPORTED' },
  'too-slow': { status: 408, code: 'UNSUPPORTED' },
  'in-use': { status: 409, code: 'DENIED' },
  'too-large': { status: 413, code: 'SIZE_INVALID' },
  'unsupported-media': { status: 415, code: 'UNSUPPORTED' },
  'range-invalid': { status: 416, code: 'UNSUPPORTED' },
  'chunk-invalid': { status: 416, code: 'BLOB_UPLOAD_INVALID' },
  misdirected: { status: 421, code: 'DENIED' },
  'too-many-requests': { status: 429, code: 'TOOMANYREQUESTS' },
  // After 404 some clients show no reason. After other codes some clients repeat the request.
  'build-failed': { status: 400, code: 'MANIFEST_UNKNOWN' },
  'build-unknown': { status: 400, apiStatus: 404, code: 'MANIFEST_UNKNOWN' },
  internal: { status: 500, code: 'UNKNOWN' },
  'not-provided': { status: 501, code: 'UNSUPPORTED' },
  // The failure lasts until the request, the registry or the configuration changes.
  'upstream-unusable': { status: 502, apiStatus: 400, code: 'UNAVAILABLE' },
  upstream: { status: 502, code: 'UNAVAILABLE' },
  unavailable: { status: 503, code: 'UNAVAILABLE' },
  'storage-full': { status: 507, code: 'UNAVAILABLE' },
  'upstream-timeout': { status: 504, code: 'UNAVAILABLE' },
} as const satisfies Record<string, FaultDialects>;

export type FaultKind = keyof typeof kinds;

/** Which part of the work failed, so that a reader knows where to look. */
export type Phase =
  | 'request'
  | 'credentials'
  | 'upstream'
  | 'layer'
  | 'augment'
  | 'build'
  | 'push'
  | 'store'
  | 'limit';

export interface FaultOptions extends ErrorOptions {
  phase?: Phase;
  /** Seconds until a retry makes sense; sent as `Retry-After`. */
  retryAfterSeconds?: number;
  /** Response headers to send along. */
  headers?: Readonly<Record<string, string>>;
  /** The message in one short line. Default: the message. */
  headline?: string;
  /** Name of the limit that is reached, for the figures of operators. It names no caller. */
  limit?: string;
}

/** An expected failure. The message says what happened and what the reader can do; it holds no secret. */
export class Fault extends Error {
  readonly kind: FaultKind;
  readonly phase: Phase | undefined;
  readonly retryAfterSeconds: number | undefined;
  readonly headers: Readonly<Record<string, string>>;
  /** The message in one line, for clients that show only the reason phrase of a response. */
  readonly headline: string;
  readonly limit: string | undefined;

  constructor(kind: FaultKind, message: string, options: FaultOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.name = 'Fault';
    this.kind = kind;
    this.phase = options.phase;
    this.retryAfterSeconds = options.retryAfterSeconds;
    this.headers = options.headers ?? {};
    this.headline = options.headline ?? message;
    this.limit = options.limit;
  }

  get status(): number {
    return kinds[this.kind].status;
  }

  /** The status in the JSON API. */
  get apiStatus(): number {
    const { status, apiStatus = status }: FaultDialects = kinds[this.kind];
    return apiStatus;
  }

  /** The code in the registry dialect. */
  get code(): string {
    return kinds[this.kind].code;
  }

  /** Returns the same failure with a message that says more about its origin. */
  withMessage(message: string): Fault {
    const { kind, phase, retryAfterSeconds, headers, limit } = this;
    return new Fault(kind, message, {
      headers,
      cause: this,
      ...(limit === undefined ? {} : { limit }),
      ...(phase === undefined ? {} : { phase }),
      ...(retryAfterSeconds === undefined ? {} : { retryAfterSeconds }),
    });
  }
}

/** Returns undefined for a response that fails with 404. */
export async function unlessMissing<T>(response: Promise<T>): Promise<T | undefined> {
  try {
    return await response;
  } catch (error) {
    if (error instanceof Fault && error.status === 404) return undefined;
    throw error;
  }
}

/** Returns true for the error that SQLite throws while another process has locked the database. */
export function isDatabaseBusy(error: unknown): boolean {
  return error instanceof Error && 'code' in error && /^SQLITE_BUSY/.test(String(error.code));
}

/** Returns the fault for a change that failed because another process kept the database locked. */
export function databaseLocked(cause?: unknown): Fault {
  return new Fault(
    'unavailable',
    'Another process has locked the database, and nothing was changed: try again in a moment',
    { phase: 'store', retryAfterSeconds: lockedRetrySeconds, cause },
  );
}

const lockedRetrySeconds = 5;
const fullCodes = new Set<unknown>(['ENOSPC', 'EDQUOT', 'SQLITE_FULL']);

/** Returns true for an error that means that the disk of the service is full. */
export function isDiskFull(error: unknown): boolean {
  if (error instanceof Fault) return error.kind === 'storage-full';
  return error instanceof Error && 'code' in error && fullCodes.has(error.code);
}

/** Returns true for an error that means that the database or the object store does not answer. */
export function isStorageLost(error: unknown): boolean {
  return error instanceof Fault && error.kind === 'unavailable' && error.phase === 'store';
}

/**
 * Returns true for an error that means that nothing can be written now: a full, read-only or
 * broken disk, or a locked database.
 */
export function isUnwritable(error: unknown): boolean {
  if (isDiskFull(error) || isStorageLost(error)) return true;
  if (error instanceof Fault) return false;
  const code = error instanceof Error && 'code' in error ? String(error.code) : '';
  return /^(?:EROFS|EIO|SQLITE_(?:READONLY|IOERR|BUSY|CANTOPEN))/.test(code);
}

/** Returns why a file cannot be read, without its path: `it does not exist`. */
export function whyUnreadable(error: unknown): string {
  const { code } = error as NodeJS.ErrnoException;
  if (code === 'ENOENT') return 'it does not exist';
  if (code === 'EACCES') return 'the user of this server cannot read it';
  if (code === 'EISDIR') return 'it is a directory';
  return error instanceof Error ? error.message : String(error);
}
