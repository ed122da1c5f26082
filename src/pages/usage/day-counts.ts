import { pauseTurn } from '../../foundation/pause-turn.ts';
import type { TallyKind } from '../../foundation/telemetry/counted.ts';
import type { DayCountStore, LabelCount } from '../../storage/rows/index.ts';
import type { Series } from './charts.ts';
import { type DayRange, daysOf } from './usage-data.ts';

/** Counts of one day. */
export interface DayFigures<K extends TallyKind> {
  readonly day: string;
  readonly figures: readonly LabelCount<K>[];
}

/** Counts of one day that have a single label, by its value. */
export interface DayCounts {
  readonly day: string;
  readonly counts: ReadonlyMap<string, number>;
}

/** The sum of a name. */
export type NameSum = readonly [name: string, count: number];

const shownSeries = 5;
const namesAtOnce = 500;

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
  store: Pick<DayCountStore, 'ofDay'>,
): Promise<DayCounts[]> {
  const days: DayCounts[] = [];
  for (const day of daysOf(range)) {
    const counts = new Map<string, number>();
    for (const { labels, count } of await store.ofDay(kind, day)) {
      const [name = ''] = Object.values(labels);
      counts.set(name, count);
    }
    days.push({ day, counts });
    await pauseTurn();
  }
  return days;
}

/** Returns the sums of all days. Other work runs between two days. */
export async function sumsOf(days: readonly DayCounts[]): Promise<Map<string, number>> {
  const sums = new Map<string, number>();
  for (const { counts } of days) {
    for (const [name, count] of counts) sums.set(name, (sums.get(name) ?? 0) + count);
    await pauseTurn();
  }
  return sums;
}

/**
 * Returns the sums of all days, the largest first. A year has up to 366,000 names, which cannot be sorted at once: they
 * are grouped by their sum, and only the sums are sorted.
 */
export async function largestFirst(days: readonly DayCounts[]): Promise<NameSum[]> {
  const bySum = new Map<number, NameSum[]>();
  let seen = 0;
  for (const entry of await sumsOf(days)) {
    const group = bySum.get(entry[1]);
    if (group) group.push(entry);
    else bySum.set(entry[1], [entry]);
    seen += 1;
    if (seen % namesAtOnce === 0) await pauseTurn();
  }
  const ordered: NameSum[] = [];
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
  sums: readonly NameSum[],
  restName: string,
): Promise<Series[]> {
  const isWhole = sums.length <= shownSeries;
  const shown = sums.slice(0, isWhole ? shownSeries : shownSeries - 1);
  const of = (name: string) => days.map(({ counts }) => counts.get(name) ?? 0);
  const series = shown.map(([name]) => ({ name, values: of(name) }));
  if (isWhole) return series;
  const others: number[] = [];
  for (const [at, { counts }] of days.entries()) {
    const all = counts.values().reduce((sum, count) => sum + count, 0);
    others.push(series.reduce((rest, { values }) => rest - (values[at] ?? 0), all));
    await pauseTurn();
  }
  return [...series, { name: restName, values: others }];
}

/** Yields each count of each day, for the table of a file or, in part, of a page. */
export function* eachCount(days: readonly DayCounts[]): Generator<[string, string, number]> {
  for (const { day, counts } of days) {
    for (const [name, count] of counts) yield [day, name, count];
  }
}
