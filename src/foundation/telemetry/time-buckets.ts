const step = 1.1;
const last = 240;

/**
 * Returns the bucket of a duration in ms. Buckets grow by a tenth, so a time that is read from them is wrong by at most
 * 5 %, and all builds of a day fit into a few dozen counts.
 */
export function bucketOf(ms: number): number {
  return Math.min(last, Math.max(0, Math.round(Math.log(Math.max(1, ms)) / Math.log(step))));
}

/** Returns the duration (ms) in the middle of a bucket. */
function msOfBucket(bucket: number): number {
  return step ** bucket;
}

/** Returns the duration (ms) that a share of all counted durations does not exceed; undefined without any. */
export function quantile(counts: ReadonlyMap<number, number>, share: number): number | undefined {
  const all = counts.values().reduce((sum, one) => sum + one, 0);
  let left = Math.max(1, Math.ceil(all * share));
  for (const [bucket, count] of [...counts].sort(([one], [other]) => one - other)) {
    left -= count;
    if (left <= 0) return msOfBucket(bucket);
  }
  return undefined;
}
