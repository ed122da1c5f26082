/** The failed phase of an exchange, as far as the caller's next step depends on it. */
export type WireErrorCode =
  | 'connect'
  | 'timeout-connect'
  | 'timeout-headers'
  | 'timeout-idle'
  | 'reset'
  | 'short'
  | 'protocol'
  | 'aborted'
  | 'tls';

/**
 * A failed exchange with an upstream. `connect` and `tls`: no connection was established; `reset`: the connection
 * broke; `short`: it was closed cleanly before the end of the body; `protocol`: the upstream (or the caller's request)
 * violates the grammar of RFC 9112; `aborted`: by signal or destroy.
 */
export class WireError extends Error {
  readonly code: WireErrorCode;

  constructor(code: WireErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'WireError';
    this.code = code;
  }
}
