import { z } from 'zod';
import { pageRoute } from '../frame/page-route.ts';
import { csvText } from './csv-text.ts';
import { rangeOf, serverNow, shownMetrics, type UsagePageDeps, usageOf } from './usage-data.ts';
import { usagePage } from './usage-template.ts';

const range = { from: z.string().max(10).optional(), to: z.string().max(10).optional() };
const csvQuery = z.object({ ...range, metric: z.enum(shownMetrics).default('pulls') });

/** Pages for operators: who uses the server, and how it is. */
export const usagePages = [
  pageRoute({
    method: 'get',
    path: '/view/usage',
    access: 'administrator',
    query: z.object(range),
    async run({ query }, deps: UsagePageDeps) {
      const days = rangeOf(query.from, query.to);
      const now = await serverNow(deps);
      const metrics = [];
      for (const metric of shownMetrics) metrics.push(await usageOf(metric, days, deps.usage));
      return usagePage(days, metrics, now);
    },
  }),
  ...(['days', 'organisations'] as const).map(kind =>
    pageRoute({
      method: 'get',
      path: `/view/usage/${kind}.csv`,
      access: 'administrator',
      query: csvQuery,
      async run({ ctx, query }, { usage }: UsagePageDeps) {
        const { metric } = query;
        const used = await usageOf(metric, rangeOf(query.from, query.to), usage);
        const rows =
          kind === 'days'
            ? used.days.map(({ day, count }) => [day, count])
            : [
                ...used.orgs.map(({ org, count }) => [org, count]),
                ...(used.others > 0 ? [['(others)', used.others]] : []),
              ];
        ctx.type = 'text/csv; charset=utf-8';
        ctx.set('content-disposition', `attachment; filename="sluice-${metric}-${kind}.csv"`);
        ctx.set('cache-control', 'no-store');
        ctx.body = csvText([[kind === 'days' ? 'day' : 'organisation', metric], ...rows]);
        return undefined;
      },
    }),
  ),
];
