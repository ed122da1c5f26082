import type { Fault } from '../foundation/fault.ts';

/** State of one HTTP request in the middleware, for its log line, its metrics and its error message. */
export interface RequestState {
  /** Label of the container token, if any. */
  token?: string;
  /** Label of the route in metrics. Default: a label derived from the path. */
  route?: string;
  /** True if the client uses other names for fields of the body. Messages then use the same names. */
  usesAliases?: boolean;
  /** The person who looks at a page, once the server knows them. */
  person?: { readonly name: string | undefined; readonly isAdministrator: boolean };
  /** Shows a failure as a page. Default: as JSON. */
  showFault?: (fault: Fault, requestId: string) => ShownFault;
}

/** A failure as a page. */
export interface ShownFault {
  readonly body: string;
  readonly headers: Readonly<Record<string, string>>;
}
