import { buildResults } from '../../../builds/runs/build-figures.ts';
import { stackedChart } from '../charts/stacked-chart.ts';
import type { DayCounts } from '../day-counts.ts';
import type { Section } from '../usage-tab.ts';

const failures = buildResults.slice(2);
const resultNames: Readonly<Record<string, string>> = {
  succeeded: 'Succeeded',
  cancelled: 'Cancelled',
  recipe: 'Failed: recipe',
  registry: 'Failed: registry',
  push: 'Failed: push',
  builder: 'Failed: builder',
  'time limit': 'Failed: time limit',
  disk: 'Failed: disk',
  'not allowed': 'Failed: not allowed',
  server: 'Failed: server',
};

/** Returns how builds ended, by day. */
export function resultsSection(days: readonly DayCounts[]): Section {
  const byDay = days.map(({ day, counts }) => ({ day, results: byResult(counts) }));
  const of = (names: readonly string[]) =>
    byDay.map(({ results }) => names.reduce((sum, name) => sum + (results.get(name) ?? 0), 0));
  const isUsed = (name: string) => byDay.some(({ results }) => results.has(name));
  const shown = buildResults.filter(
    name => name === 'succeeded' || name === 'cancelled' || isUsed(name),
  );
  const isEmpty = !buildResults.some(isUsed);
  return {
    title: 'Results of builds',
    chart: stackedChart({
      title: 'Results of builds by day',
      places: byDay.map(({ day }) => day),
      series: [
        { name: 'Succeeded', values: of(['succeeded']) },
        { name: 'Cancelled', values: of(['cancelled']) },
        { name: 'Failed', values: of(failures) },
      ],
    }),
    table: {
      name: 'build-results',
      title: 'Results of builds by day',
      columns: [
        { name: 'Day', kind: 'text' },
        ...shown.map(name => ({ name: resultNames[name] ?? name, kind: 'count' as const })),
      ],
      rows: isEmpty
        ? []
        : byDay.map(({ day, results }) => [day, ...shown.map(name => results.get(name) ?? 0)]),
    },
    isFolded: true,
  };
}

function byResult(counts: ReadonlyMap<string, number>): Map<string, number> {
  const results = new Map<string, number>();
  for (const [name, count] of counts) {
    const result = name.slice(name.indexOf(' ') + 1);
    results.set(result, (results.get(result) ?? 0) + count);
  }
  return results;
}
