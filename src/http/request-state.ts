/** What accompanies one HTTP request through the middleware: what its log line and its error message need. */
export interface RequestState {
  /** Label of the container token, if any. */
  token?: string;
  /** True for a client that uses other names for fields of the body; messages use them too. */
  usesAliases?: boolean;
}
