/** What is counted, by day and by bucket; it loads no packages. */

export {
  noTally,
  type Tally,
  type TallyKind,
  type TallyLabels,
  tallyKinds,
} from './tally.ts';
export { bucketOf, quantile } from './time-buckets.ts';
export { dayMs, dayOf } from './utc-day.ts';
