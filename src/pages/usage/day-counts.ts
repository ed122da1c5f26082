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

/** Returns the sums of all days, the largest first. */
export function sumsOf(days: readonly DayCounts[]): Map<string, number> {
  const sums = new Map<string, number>();
  for (const { counts } of days) {
    for (const [name, count] of counts) sums.set(name, (sums.get(name) ?? 0) + count);
  }
  return new Map([...sums].sort(([, one], [, other]) => other - one));
}

/** Returns the counts of the most frequent names, one series each; all other names share the last one. */
export function topSeries(days: readonly DayCounts[], restName: string): Series[] {
  const names = [...sumsOf(days).keys()];
  const shown = names.length > shownSeries ? names.slice(0, shownSeries - 1) : names;
  const series = shown.map(name => ({
    name,
    values: days.map(({ counts }) => counts.get(name) ?? 0),
  }));
  if (shown.length === names.length) return series;
  const rest = names.slice(shown.length);
  const others = days.map(({ counts }) =>
    rest.reduce((sum, name) => sum + (counts.get(name) ?? 0), 0),
  );
  return [...series, { name: restName, values: others }];
}
