import { pauseTurn } from '../../foundation/pause-turn.ts';
import type { TallyKind } from '../../foundation/telemetry/counted.ts';
import type { DayCountStore, LabelCount, StoredCount } from '../../storage/rows/index.ts';
import type { Series } from './charts.ts';
import { type DayRange, daysOf } from './usage-data.ts';

/** Counts of one day. */
export interface DayFigures<K extends TallyKind> {
  readonly day: string;
  readonly figures: readonly LabelCount<K>[];
}

/** Counts of one day that have a single label, each label once, the largest first. */
export interface DayCounts {
  readonly day: string;
  readonly counts: readonly StoredCount[];
}

/** The sum of a label, as it is stored: reading all of a year would take longer than adding them up. */
export type LabelSum = readonly [label: string, count: number];

const shownSeries = 5;
const namesAtOnce = 500;
// Far more than a site has. A larger map would hold the event loop while it grows.
const mostSums = 100_000;
const otherSums = JSON.stringify({ name: '(more)' });

/** Reads counts one day at a time, so that other work runs in between. */
export async function readDayFigures<K extends TallyKind>(
  kind: K,
  range: DayRange,
  store: Pick<DayCountStore, 'ofDay'>,
): Promise<DayFigures<K>[]> {
  const days: DayFigures<K>[] = [];
  for (const day of daysOf(range)) {
    days.push({ day, figures: await store.ofDay(kind, day) });
    await pauseTurn();
  }
  return days;
}

/** Reads counts that have a single label. */
export async function readDayCounts(
  kind: Exclude<TallyKind, 'build results' | 'build times'>,
  range: DayRange,
  store: Pick<DayCountStore, 'storedOfDay'>,
): Promise<DayCounts[]> {
  const days: DayCounts[] = [];
  for (const day of daysOf(range)) {
    days.push({ day, counts: await store.storedOfDay(kind, day) });
    await pauseTurn();
  }
  return days;
}

/** Returns the value of a single label as it is stored. */
export function nameIn(label: string): string {
  const [name = ''] = Object.values<string>(JSON.parse(label));
  return name;
}

/** Returns the counts of a day by the values of their labels. */
export function byName({ counts }: DayCounts): ReadonlyMap<string, number> {
  return new Map(counts.map(({ labels, count }) => [nameIn(labels), count]));
}

/**
 * Returns the sums of all days by label; labels beyond the first 100,000 share one sum. Other work runs between two days.
 */
async function sumsOf(days: readonly DayCounts[]): Promise<Map<string, number>> {
  const sums = new Map<string, number>();
  let others = 0;
  for (const { counts } of days) {
    for (const { labels, count } of counts) {
      const sum = sums.get(labels);
      if (sum !== undefined || sums.size < mostSums) sums.set(labels, (sum ?? 0) + count);
      else others += count;
    }
    await pauseTurn();
  }
  if (others > 0) sums.set(otherSums, others + (sums.get(otherSums) ?? 0));
  return sums;
}

/**
 * Returns the sums of all days, the largest first. A year can have 100,000 of them, which cannot be sorted at once: they
 * are grouped by their sum, and only the sums are sorted.
 */
export async function largestFirst(days: readonly DayCounts[]): Promise<LabelSum[]> {
  const bySum = new Map<number, LabelSum[]>();
  let seen = 0;
  for (const entry of await sumsOf(days)) {
    const group = bySum.get(entry[1]);
    if (group) group.push(entry);
    else bySum.set(entry[1], [entry]);
    seen += 1;
    if (seen % namesAtOnce === 0) await pauseTurn();
  }
  const ordered: LabelSum[] = [];
  for (const sum of [...bySum.keys()].sort((one, other) => other - one)) {
    for (const entry of bySum.get(sum) ?? []) {
      ordered.push(entry);
      seen += 1;
      if (seen % namesAtOnce === 0) await pauseTurn();
    }
  }
  return ordered;
}

/**
 * Returns the counts of the most frequent names, one series each; all other names share the last one. Other work runs
 * between two days.
 *
 * @param sums from {@link largestFirst}
 */
export async function topSeries(
  days: readonly DayCounts[],
  sums: readonly LabelSum[],
  restName: string,
): Promise<Series[]> {
  const isWhole = sums.length <= shownSeries;
  const shown = sums.slice(0, isWhole ? shownSeries : shownSeries - 1);
  const valuesOf = new Map(shown.map(([label]) => [label, days.map(() => 0)]));
  const others = days.map(() => 0);
  for (const [at, { counts }] of days.entries()) {
    for (const { labels, count } of counts) {
      const values = valuesOf.get(labels) ?? others;
      values[at] = (values[at] ?? 0) + count;
    }
    await pauseTurn();
  }
  const series = Array.from(valuesOf, ([label, values]) => ({ name: nameIn(label), values }));
  return isWhole ? series : [...series, { name: restName, values: others }];
}

/** Yields each count of each day, for the table of a file or, in part, of a page. */
export function* eachCount(days: readonly DayCounts[]): Generator<[string, string, number]> {
  for (const { day, counts } of days) {
    for (const { labels, count } of counts) yield [day, nameIn(labels), count];
  }
}
