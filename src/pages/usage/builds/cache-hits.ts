import { countText } from '../../frame/formats.ts';
import { type Html, html } from '../../frame/html.ts';
import { type DayCounts, sumsOf } from '../day-counts.ts';
import type { Section } from '../usage-tab.ts';

/** Counts by day of everything that may come from a cache. */
export interface CacheCounts {
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
export async function cacheSection(given: CacheCounts): Promise<Section> {
  const hits: Html[] = [];
  for (const cache of caches) hits.push(hitPart(cache, await sumsOf(given[cache.counts])));
  const columns = caches.flatMap(({ counts, hits, others }) =>
    Object.entries({ ...hits, ...others }).map(([key, name]) => ({ counts, key, name })),
  );
  const days = given.requests.map(({ day }, at) => [
    day,
    ...columns.map(({ counts, key }) => given[counts][at]?.counts.get(key) ?? 0),
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

function hitPart({ title, hits, others }: Cache, sums: ReadonlyMap<string, number>): Html {
  const of = (names: object) =>
    Object.keys(names).reduce((sum, name) => sum + (sums.get(name) ?? 0), 0);
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
