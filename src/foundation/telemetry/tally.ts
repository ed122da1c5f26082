/**
 * What is counted by day, and what the name of a count means.
 *
 * - `build requests`: `existing image`, `running build`, `new build`
 * - `build results`: `<recipe> <result>`
 * - `build times`: `<recipe> waiting|running <bucket>`, see `time-buckets.ts`
 * - `build steps`: the state of a step on a builder
 * - `package layers`: `kept` or `made`
 * - `cached blobs`: `cache` or `registry`
 * - `limits`: the name of a limit that refused a request
 * - `refused callers`: the caller that it refused
 * - `pulled images`: `<registry>/<repository>`
 */
export const tallyKinds = [
  'build requests',
  'build results',
  'build times',
  'build steps',
  'package layers',
  'cached blobs',
  'limits',
  'refused callers',
  'pulled images',
] as const;
export type TallyKind = (typeof tallyKinds)[number];

/** Counts events. A call costs a look into memory, and never fails. */
export interface Tally {
  add(kind: TallyKind, name: string, count?: number): void;
}

/** For commands and tests, which count nothing. */
export const noTally: Tally = { add() {} };
