import { buildResults } from '../../builds/index.ts';
import { pauseTurn } from '../../foundation/pause-turn.ts';
import { dayMs, dayOf, quantile } from '../../foundation/telemetry/counted.ts';
import type { QueueHour, QueueStore } from '../../storage/rows/index.ts';
import { countText, durationText, type Html, html, shortDurationText } from '../frame/html.ts';
import { stackedChart } from './charts.ts';
import {
  byName,
  type DayCounts,
  type DayFigures,
  readDayCounts,
  readDayFigures,
} from './day-counts.ts';
import { type DayRange, daysOf, type UsagePageDeps } from './usage-data.ts';
import type { Cell, Column, Section, UsageTab } from './usage-tab.ts';

/** How builds wait, run and end, and what caches save. */
export const buildsTab: UsageTab<UsagePageDeps> = {
  path: '/view/usage/builds',
  title: 'Builds',
  hasDays: true,
  tables: ['queue', 'build-results', 'build-times-by-recipe', 'build-times', 'cache-hits'],
  async read(range, { builds, operation, figures }) {
    const { dayCounts } = figures;
    const read = (kind: Parameters<typeof readDayCounts>[0]) =>
      readDayCounts(kind, range, dayCounts);
    const { running, waiting } = builds.load();
    const { maxRunning, maxWaiting } = operation;
    return {
      now: html`<p>Now: <strong>${countText(running)}</strong> builds run (at most ${countText(maxRunning)}), <strong>${countText(waiting)}</strong> wait. At most ${countText(maxWaiting)} run and wait in all. <a href="/view/builds?state=running">Running builds</a> · <a href="/view/builds?state=queued">waiting builds</a></p>`,
      sections: [
        await queueSection(range, figures.queue),
        resultsSection(await readDayFigures('build results', range, dayCounts)),
        ...(await timesSections(await readDayFigures('build times', range, dayCounts))),
        await cacheSection({
          requests: await read('build requests'),
          steps: await read('build steps'),
          layers: await read('package layers'),
          blobs: await read('cached blobs'),
        }),
      ],
    };
  },
};

const failureResults = buildResults.slice(2);
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
function resultsSection(days: readonly DayFigures<'build results'>[]): Section {
  const byDay = days.map(({ day, figures }) => ({ day, results: byResult(figures) }));
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
        { name: 'Failed', values: of(failureResults) },
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

function byResult(figures: DayFigures<'build results'>['figures']): Map<string, number> {
  const results = new Map<string, number>();
  for (const { labels, count } of figures) {
    const { result } = labels;
    results.set(result, (results.get(result) ?? 0) + count);
  }
  return results;
}

/** Counts by day of everything that may come from a cache. */
interface CacheCounts {
  readonly requests: readonly DayCounts[];
  readonly steps: readonly DayCounts[];
  readonly layers: readonly DayCounts[];
  readonly blobs: readonly DayCounts[];
}

interface Cache {
  readonly counts: keyof CacheCounts;
  readonly title: string;
  /** Names of counts that are hits, and of those that are not, each with its column. */
  readonly hits: Readonly<Record<string, string>>;
  readonly others: Readonly<Record<string, string>>;
}

const caches: readonly Cache[] = [
  {
    counts: 'requests',
    title: 'Requests for builds that needed no new build',
    hits: { 'existing image': 'Answered by an image', 'running build': 'Joined a build' },
    others: { 'new build': 'New builds' },
  },
  {
    counts: 'steps',
    title: 'Steps of builds that were in the cache of the builder',
    hits: { cached: 'Cached steps' },
    others: { done: 'Executed steps', failed: 'Failed steps', cancelled: 'Cancelled steps' },
  },
  {
    counts: 'layers',
    title: 'Layers of Conda packages that were here',
    hits: { kept: 'Kept layers' },
    others: { made: 'Made layers' },
  },
  {
    counts: 'blobs',
    title: 'Pulled blobs that were in the cache of this server',
    hits: { cache: 'Blobs from the cache' },
    others: { registry: 'Blobs from a registry' },
  },
];

/** Returns how much work the caches have saved. */
async function cacheSection(given: CacheCounts): Promise<Section> {
  const hits: Html[] = [];
  const byDay = new Map<keyof CacheCounts, ReadonlyMap<string, number>[]>();
  for (const cache of caches) {
    const named = given[cache.counts].map(byName);
    byDay.set(cache.counts, named);
    hits.push(hitPart(cache, named));
    await pauseTurn();
  }
  const columns = caches.flatMap(({ counts, hits, others }) =>
    Object.entries({ ...hits, ...others }).map(([key, name]) => ({ counts, key, name })),
  );
  const days = given.requests.map(({ day }, at) => [
    day,
    ...columns.map(({ counts, key }) => byDay.get(counts)?.[at]?.get(key) ?? 0),
  ]);
  const isEmpty = days.every(row => row.slice(1).every(count => count === 0));
  return {
    title: 'Cache hits',
    intro: html`<dl class="hits">${hits}</dl>`,
    table: {
      name: 'cache-hits',
      title: 'Cache hits by day',
      columns: [
        { name: 'Day', kind: 'text' },
        ...columns.map(({ name }) => ({ name, kind: 'count' as const })),
      ],
      rows: isEmpty ? [] : days,
    },
    isFolded: true,
  };
}

function hitPart(
  { title, hits, others }: Cache,
  days: readonly ReadonlyMap<string, number>[],
): Html {
  const sumOf = (name: string) => days.reduce((sum, day) => sum + (day.get(name) ?? 0), 0);
  const of = (names: object) => Object.keys(names).reduce((sum, name) => sum + sumOf(name), 0);
  const hit = of(hits);
  const all = hit + of(others);
  const share = all === 0 ? 0 : (hit / all) * 100;
  return html`<dt>${title}</dt><dd>${
    all === 0
      ? html`<span class="minor">None in this range</span>`
      : html`<svg class="share" width="100%" height="12" aria-hidden="true"><rect class="rest" width="100%" height="12"/><rect class="bar" width="${share.toFixed(2)}%" height="12"/></svg>
<strong>${share.toFixed(1)} %</strong> ${countText(hit)} of ${countText(all)}`
  }</dd>`;
}

const hourMs = 3_600_000;
/** A longer range shows days instead of hours. */
const mostDaysByHour = 7;
/** Other work runs after the hours of a month are read. */
const daysAtOnce = 30;

interface Span {
  readonly name: string;
  readonly hours: readonly QueueHour[];
}

/** Returns the queue over time: hours of a week, or days. */
async function queueSection(range: DayRange, queue: Pick<QueueStore, 'between'>): Promise<Section> {
  const from = Date.parse(range.from);
  const days = daysOf(range);
  const hours: QueueHour[] = [];
  const end = Date.parse(range.to) + dayMs;
  for (let at = from; at < end; at += daysAtOnce * dayMs) {
    hours.push(...(await queue.between(at, Math.min(end, at + daysAtOnce * dayMs))));
    await pauseTurn();
  }
  const isByHour = days.length <= mostDaysByHour;
  const spans: Span[] = isByHour
    ? spansOf(hours, from, days.length * 24, hourMs, at => `${dayOf(at)} ${clockTime(at)}`)
    : spansOf(hours, from, days.length, dayMs, dayOf);
  const most = (key: 'mostRunning' | 'mostWaiting') =>
    spans.map(span => Math.max(0, ...span.hours.map(hour => hour[key])));
  const [running, waiting] = [most('mostRunning'), most('mostWaiting')];
  const unit = isByHour ? 'hour' : 'day';
  return {
    title: 'Queue',
    chart: stackedChart({
      title: `Most builds at once, by ${unit}`,
      places: spans.map(({ name }) => name),
      series: [
        { name: 'Running', values: running },
        { name: 'Waiting', values: waiting },
      ],
    }),
    table: {
      name: 'queue',
      title: `Queue by ${unit}`,
      columns: [
        { name: isByHour ? 'Hour (UTC)' : 'Day', kind: 'text' },
        { name: 'Most running', kind: 'count' },
        { name: 'Most waiting', kind: 'count' },
        { name: 'Share of the time with a queue', kind: 'share' },
      ],
      rows: spans.flatMap(({ name, hours: own }, at) =>
        own.length === 0 ? [] : [[name, running[at], waiting[at], queuedShare(own)]],
      ),
    },
    isFolded: true,
  };
}

function queuedShare(hours: readonly QueueHour[]): number {
  const sum = (key: 'samples' | 'queued') => hours.reduce((all, hour) => all + hour[key], 0);
  return sum('queued') / Math.max(1, sum('samples'));
}

function spansOf(
  hours: readonly QueueHour[],
  from: number,
  count: number,
  ms: number,
  nameOf: (at: number) => string,
): Span[] {
  const groups = new Map<number, QueueHour[]>();
  for (const hour of hours) {
    const at = Math.floor((hour.at - from) / ms);
    groups.set(at, [...(groups.get(at) ?? []), hour]);
  }
  return Array.from({ length: count }, (_, at) => ({
    name: nameOf(from + at * ms),
    hours: groups.get(at) ?? [],
  }));
}

function clockTime(at: number): string {
  return new Date(at).toISOString().slice(11, 16);
}

type Phase = 'waiting' | 'running';
type Buckets = Map<number, number>;

/** Counted times of some builds by phase. */
type Times = Readonly<Record<Phase, Buckets>>;

const recipeNames: Readonly<Record<string, string>> = {
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
const timesIntro = html`<p class="minor">Half of the builds took at most the median, and 95 of 100 at most the upper value. The times are at most 5 % off. Builds that never left the queue do not count.</p>`;

/** Returns how long builds waited and ran: by day, and by kind of recipe. Other work runs between two days. */
async function timesSections(days: readonly DayFigures<'build times'>[]): Promise<Section[]> {
  const quantiles: Record<Phase, { median: number; most: number }[]> = { waiting: [], running: [] };
  const rows: Cell[][] = [];
  const recipes = new Map<string, Times>();
  for (const { day, figures } of days) {
    const ofDay = byRecipe(figures);
    const all = joinedTimes([...ofDay.values()]);
    for (const [recipe, times] of ofDay) {
      rows.push([day, recipeNames[recipe] ?? recipe, ...figuresOf(times)]);
      recipes.set(recipe, joinedTimes([recipes.get(recipe) ?? noTimes(), times]));
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
      intro: timesIntro,
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
    const times = recipes.get(recipe) ?? noTimes();
    recipes.set(recipe, times);
    addCount(times[phase], Number(bucket), count);
  }
  return recipes;
}

function joinedTimes(all: readonly Times[]): Times {
  const times = noTimes();
  for (const one of all) {
    for (const phase of ['waiting', 'running'] as const) {
      for (const [bucket, count] of one[phase]) addCount(times[phase], bucket, count);
    }
  }
  return times;
}

function noTimes(): Times {
  return { waiting: new Map(), running: new Map() };
}

function addCount(buckets: Buckets, bucket: number, count: number): void {
  buckets.set(bucket, (buckets.get(bucket) ?? 0) + count);
}
