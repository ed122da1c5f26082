/** A part of a list. */
export interface Page {
  readonly limit: number;
  readonly offset: number;
}

/** A part of a list, and the length of the whole list. */
export interface Listed<T> {
  readonly entries: readonly T[];
  readonly total: number;
}

/** Why a row was not added: its owner does not exist, has a row of the same name, or has as many as allowed. */
export type NotAdded = 'unknown-owner' | 'taken' | 'too-many';
