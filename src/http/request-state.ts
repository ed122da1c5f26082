/** What accompanies one HTTP request through the middleware, for its log line, its metrics and its error message. */
export interface RequestState {
  /** Label of the container token, if any. */
  token?: string;
  /** The route, as metrics count it. Default: what the path says. */
  route?: string;
  /** True for a client that uses other names for fields of the body; messages use them too. */
  usesAliases?: boolean;
}
