import type { BuildOutcome, BuildRow } from '../storage/rows/index.ts';

/**
 * How long finished builds are kept (ms). The shortest applicable time counts, but no build is kept for less time than
 * its requests.
 */
export interface KeepTimes {
  readonly usual: number;
  readonly failed: number;
  /** Builds of callers without a login. */
  readonly anonymous: number;
}

/** Returns how long a finished build is kept (ms). */
export function keepMs(
  keep: KeepTimes,
  { isTrusted }: BuildRow,
  { succeeded }: BuildOutcome,
): number {
  const failed = succeeded ? keep.usual : keep.failed;
  const anonymous = isTrusted ? keep.usual : keep.anonymous;
  return Math.min(keep.usual, failed, anonymous);
}
