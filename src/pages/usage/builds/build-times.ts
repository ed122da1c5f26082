import { pauseTurn } from '../../../foundation/pause-turn.ts';
import { quantile } from '../../../foundation/telemetry/counted.ts';
import { durationText, shortDurationText } from '../../frame/formats.ts';
import { html } from '../../frame/html.ts';
import { stackedChart } from '../charts/stacked-chart.ts';
import type { DayFigures } from '../day-counts.ts';
import type { Cell, Column } from '../tables/figure-table.ts';
import type { Section } from '../usage-tab.ts';

type Phase = 'waiting' | 'running';
type Buckets = Map<number, number>;

/** Counted times of some builds by phase. */
type Times = Readonly<Record<Phase, Buckets>>;

export const recipeNames: Readonly<Record<string, string>> = {
  dockerfile: 'Dockerfile',
  definition: 'Definition file',
  conda: 'Conda packages',
  image: 'Copy of an image',
};

const timeColumns: readonly Column[] = [
  { name: 'Builds', kind: 'count' },
  { name: 'Waited: median', kind: 'ms' },
  { name: 'Waited: 95 %', kind: 'ms' },
  { name: 'Ran: median', kind: 'ms' },
  { name: 'Ran: 95 %', kind: 'ms' },
];
const intro = html`<p class="minor">Half of the builds took at most the median, and 95 of 100 at most the upper value. The times are at most 5 % off. Builds that never left the queue do not count.</p>`;

/** Returns how long builds waited and ran: by day, and by kind of recipe. Other work runs between two days. */
export async function timesSections(
  days: readonly DayFigures<'build times'>[],
): Promise<Section[]> {
  const quantiles: Record<Phase, { median: number; most: number }[]> = { waiting: [], running: [] };
  const rows: Cell[][] = [];
  const recipes = new Map<string, Times>();
  for (const { day, figures } of days) {
    const ofDay = byRecipe(figures);
    const all = joined([...ofDay.values()]);
    for (const [recipe, times] of ofDay) {
      rows.push([day, recipeNames[recipe] ?? recipe, ...figuresOf(times)]);
      recipes.set(recipe, joined([recipes.get(recipe) ?? none(), times]));
    }
    if (ofDay.size > 1) rows.push([day, 'All', ...figuresOf(all)]);
    for (const phase of ['waiting', 'running'] as const) {
      const [median = 0, most = 0] = [quantile(all[phase], 0.5), quantile(all[phase], 0.95)];
      quantiles[phase].push({ median, most });
    }
    await pauseTurn();
  }
  const chart = (phase: Phase, title: string) => {
    const medians = quantiles[phase].map(({ median }) => median);
    const rest = quantiles[phase].map(({ median, most }) => most - median);
    return stackedChart({
      title,
      places: days.map(({ day }) => day),
      series: [
        { name: 'Median', values: medians },
        { name: 'Up to 95 % of the builds', values: rest },
      ],
      format: durationText,
      axisFormat: shortDurationText,
      isWhole: false,
    });
  };
  return [
    {
      title: 'Time that builds ran',
      intro,
      chart: chart('running', 'Time that builds ran, by day'),
      table: {
        name: 'build-times-by-recipe',
        title: 'Times of builds by kind of recipe',
        columns: [{ name: 'Recipe', kind: 'text' }, ...timeColumns],
        rows: [...recipes]
          .sort(([one], [other]) => (one < other ? -1 : 1))
          .map(([recipe, times]) => [recipeNames[recipe] ?? recipe, ...figuresOf(times)]),
      },
    },
    {
      title: 'Time that builds waited',
      chart: chart('waiting', 'Time that builds waited, by day'),
      table: {
        name: 'build-times',
        title: 'Times of builds by day and kind of recipe',
        columns: [{ name: 'Day', kind: 'text' }, { name: 'Recipe', kind: 'text' }, ...timeColumns],
        rows,
      },
      isFolded: true,
    },
  ];
}

function figuresOf({ waiting, running }: Times): Cell[] {
  return [
    running.values().reduce((sum, one) => sum + one, 0),
    ...[quantile(waiting, 0.5), quantile(waiting, 0.95)],
    ...[quantile(running, 0.5), quantile(running, 0.95)],
  ];
}

function byRecipe(figures: DayFigures<'build times'>['figures']): Map<string, Times> {
  const recipes = new Map<string, Times>();
  for (const { labels, count } of figures) {
    const { recipe, phase, bucket } = labels;
    if (phase !== 'waiting' && phase !== 'running') continue;
    const times = recipes.get(recipe) ?? none();
    recipes.set(recipe, times);
    add(times[phase], Number(bucket), count);
  }
  return recipes;
}

function joined(all: readonly Times[]): Times {
  const times = none();
  for (const one of all) {
    for (const phase of ['waiting', 'running'] as const) {
      for (const [bucket, count] of one[phase]) add(times[phase], bucket, count);
    }
  }
  return times;
}

function none(): Times {
  return { waiting: new Map(), running: new Map() };
}

function add(buckets: Buckets, bucket: number, count: number): void {
  buckets.set(bucket, (buckets.get(bucket) ?? 0) + count);
}
