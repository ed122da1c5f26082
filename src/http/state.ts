import type { Logger } from '../telemetry.ts';

/** What accompanies one HTTP request through the middleware: only what the access log needs. */
export interface RequestState {
  /** Ties the answer to its log lines; sent as `X-Request-Id` and as the error id. */
  requestId: string;
  log: Logger;
  /** Label of the container token, if any. */
  token?: string;
}
