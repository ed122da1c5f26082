import { Readable } from 'node:stream';
import { z } from 'zod';
import { Fault } from '../../foundation/fault.ts';
import { pageRoute } from '../frame/page-route.ts';
import { buildsTab } from './builds-tab.ts';
import { diskTab } from './disk-tab.ts';
import { limitsTab } from './limits-tab.ts';
import { healthTab, overviewTab } from './overview-tab.ts';
import { pullsTab } from './pulls-tab.ts';
import { rangeOf, shownMetrics, type UsagePageDeps, usageOf } from './usage-data.ts';
import { csvText, tableFile, tabPage } from './usage-tab.ts';

const tabs = [overviewTab, pullsTab, buildsTab, diskTab, limitsTab, healthTab];
const range = { from: z.string().max(10).optional(), to: z.string().max(10).optional() };
const csvQuery = z.object({ ...range, metric: z.enum(shownMetrics).default('pulls') });

interface FileContext {
  type: string;
  body: unknown;
  set(name: string, value: string): void;
}

/** Pages for operators: who uses the server, and how it is. Each table is also a file. */
export const usagePages = [
  ...tabs.map(tab =>
    pageRoute({
      method: 'get',
      path: tab.path,
      access: 'administrator',
      query: z.object(range),
      async run({ query }, deps: UsagePageDeps) {
        const days = rangeOf(query.from, query.to);
        return tabPage(tab, tabs, days, await tab.read(days, deps));
      },
    }),
  ),
  ...tabs.flatMap(tab =>
    tab.tables.map(name =>
      pageRoute({
        method: 'get',
        path: `/view/usage/${name}.csv`,
        access: 'administrator',
        query: z.object(range),
        async run({ ctx, query }, deps: UsagePageDeps) {
          const { sections } = await tab.read(rangeOf(query.from, query.to), deps);
          const table = sections.find(section => section.table.name === name)?.table;
          if (!table) throw new Fault('not-found', 'There is no such table now: reload the page');
          sendFile(ctx, name, Readable.from(tableFile(table)));
          return undefined;
        },
      }),
    ),
  ),
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
        const head = [kind === 'days' ? 'day' : 'organisation', metric];
        sendFile(ctx, `${metric}-${kind}`, csvText([head, ...rows]));
        return undefined;
      },
    }),
  ),
];

function sendFile(ctx: FileContext, name: string, body: string | Readable): void {
  ctx.type = 'text/csv; charset=utf-8';
  ctx.set('content-disposition', `attachment; filename="sluice-${name}.csv"`);
  ctx.set('cache-control', 'no-store');
  ctx.body = body;
}
