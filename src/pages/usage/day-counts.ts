import { pauseTurn } from '../../foundation/pause-turn.ts';
import type { TallyKind } from '../../foundation/telemetry/tally.ts';
import type { DayCountStore } from '../../storage/rows/figures/day-count-rows.ts';
import type { Series } from './charts/stacked-chart.ts';
import { type DayRange, daysOf } from './usage-data.ts';

/** Counts of one day by name. */
export interface DayCounts {
  readonly day: string;
  readonly counts: ReadonlyMap<string, number>;
}

const mostNames = 2000;
const shownSeries = 5;

/** Reads counts one day at a time, so that other work runs in between. */
export async function readDayCounts(
  kind: TallyKind,
  range: DayRange,
  store: Pick<DayCountStore, 'ofDay'>,
): Promise<DayCounts[]> {
  const days: DayCounts[] = [];
  for (const day of daysOf(range)) {
    days.push({ day, counts: await store.ofDay(kind, day, mostNames) });
    await pauseTurn();
  }
  return days;
}

/** Returns the sums of all days, the largest first. Other work runs between two days. */
export async function sumsOf(days: readonly DayCounts[]): Promise<Map<string, number>> {
  const sums = new Map<string, number>();
  for (const { counts } of days) {
    for (const [name, count] of counts) sums.set(name, (sums.get(name) ?? 0) + count);
    await pauseTurn();
  }
  return new Map([...sums].sort(([, one], [, other]) => other - one));
}

/**
 * Returns the counts of the most frequent names, one series each; all other names share the last one. Other work runs
 * between two days.
 *
 * @param sums from {@link sumsOf}
 */
export async function topSeries(
  days: readonly DayCounts[],
  sums: ReadonlyMap<string, number>,
  restName: string,
): Promise<Series[]> {
  const names = [...sums.keys()];
  const shown = names.length > shownSeries ? names.slice(0, shownSeries - 1) : names;
  const of = (name: string) => days.map(({ counts }) => counts.get(name) ?? 0);
  const series = shown.map(name => ({ name, values: of(name) }));
  if (shown.length === names.length) return series;
  const others: number[] = [];
  for (const [at, { counts }] of days.entries()) {
    const all = counts.values().reduce((sum, count) => sum + count, 0);
    others.push(series.reduce((rest, { values }) => rest - (values[at] ?? 0), all));
    await pauseTurn();
  }
  return [...series, { name: restName, values: others }];
}
