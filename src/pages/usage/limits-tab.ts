import type { Registry } from 'prom-client';
import { html } from '../frame/html.ts';
import { stackedChart } from './charts.ts';
import {
  eachCount,
  type LabelSum,
  largestFirst,
  nameIn,
  readDayCounts,
  topSeries,
} from './day-counts.ts';
import type { UsagePageDeps } from './usage-data.ts';
import type { Cell, UsageTab } from './usage-tab.ts';

const shownCallers = 50;
const shownRoutes = 20;

/** Which limits refused requests, and whose. */
export const limitsTab: UsageTab<UsagePageDeps> = {
  path: '/view/usage/limits',
  title: 'Limits',
  hasDays: true,
  tables: ['limits', 'limits-by-day', 'refused-callers', 'refused-routes'],
  async read(range, { figures, metrics }) {
    const days = await readDayCounts('limits', range, figures.dayCounts);
    const refused = await readDayCounts('refused callers', range, figures.dayCounts);
    const callers = await largestFirst(refused);
    const limits = await largestFirst(days);
    return {
      sections: [
        {
          title: 'Limits that were reached',
          intro: html`<p class="minor">Requests that got 429, 503 or 507. A name that begins with “no limit” is another reason for 503, such as a build that has not finished.</p>`,
          chart: stackedChart({
            title: 'Refused requests by day',
            places: days.map(({ day }) => day),
            series: await topSeries(days, limits, 'Other limits'),
          }),
          table: {
            name: 'limits',
            title: 'Refused requests by limit',
            columns: [
              { name: 'Limit', kind: 'text' },
              { name: 'Refused requests', kind: 'count' },
            ],
            rows: limits.map(rowOf),
          },
        },
        {
          title: 'Limits by day',
          table: {
            name: 'limits-by-day',
            title: 'Refused requests by day and limit',
            columns: [
              { name: 'Day', kind: 'text' },
              { name: 'Limit', kind: 'text' },
              { name: 'Refused requests', kind: 'count' },
            ],
            rows: [...eachCount(days)],
          },
          isFolded: true,
        },
        {
          title: 'Callers that were refused most',
          intro: html`<p class="minor">Callers without a login are counted by their network. Their names are kept for 30 days, and 1,000 names a day at most.</p>`,
          table: {
            name: 'refused-callers',
            title: 'Refused requests by caller',
            columns: [
              { name: 'Caller', kind: 'text' },
              { name: 'Refused requests', kind: 'count' },
            ],
            rows: callers.slice(0, shownCallers).map(rowOf),
            all: { count: callers.length, rows: () => callers.values().map(rowOf) },
          },
        },
        {
          title: 'Routes, since the start of the server',
          table: {
            name: 'refused-routes',
            title: 'Refused requests by route',
            columns: [
              { name: 'Route', kind: 'text' },
              { name: 'Status', kind: 'text' },
              { name: 'Refused requests', kind: 'count' },
            ],
            rows: await refusedRoutes(metrics),
          },
        },
      ],
    };
  },
};

function rowOf([label, count]: LabelSum): Cell[] {
  return [nameIn(label), count];
}

async function refusedRoutes(metrics: Registry): Promise<Cell[][]> {
  const { values = [] } =
    (await metrics.getSingleMetric('sluice_http_requests_total')?.get()) ?? {};
  const sums = new Map<string, { route: string; status: string; count: number }>();
  for (const { labels, value } of values) {
    const [route, status] = [String(labels.route), String(labels.status)];
    if (!['429', '503', '507'].includes(status)) continue;
    const key = `${status} ${route}`;
    const { count } = sums.get(key) ?? { count: 0 };
    sums.set(key, { route, status, count: count + value });
  }
  return [...sums.values()]
    .sort((one, other) => other.count - one.count)
    .slice(0, shownRoutes)
    .map(({ route, status, count }) => [route, status, count]);
}
