/** What broke: which phase of the exchange, as far as the caller's next step depends on it. */
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
 * A failed exchange with an upstream. `connect` and `tls`: no connection came about; `reset`: the
 * connection broke; `short`: it was closed in good order before the body's end; `protocol`: the
 * upstream (or the caller's request) breaks the grammar of RFC 9112; `aborted`: by signal or destroy.
 */
export class WireError extends Error {
  readonly code: WireErrorCode;

  constructor(code: WireErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'WireError';
    this.code = code;
  }
}
