/** A part of a list. */
export interface Page {
  readonly limit: number;
  readonly offset: number;
}

/** A part of a list, and how long the whole is. */
export interface Listed<T> {
  readonly entries: readonly T[];
  readonly total: number;
}
