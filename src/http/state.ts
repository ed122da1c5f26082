/** What accompanies one HTTP request through the middleware: only what the access log needs. */
export interface RequestState {
  /** Label of the container token, if any. */
  token?: string;
}
