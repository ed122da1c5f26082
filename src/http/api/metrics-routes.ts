import type { Router } from '@koa/router';
import { Fault } from '../../foundation/fault.ts';
import type { Metric, UsageStore } from '../../storage/rows/images/usage-rows.ts';
import type { RequireAdministrator } from '../callers/basic-auth.ts';
import type { RequestState } from '../request-state.ts';
import { queryOf } from '../request-target.ts';
import { mountedAlias } from './aliases.ts';

export interface MetricsDeps {
  readonly usage: UsageStore;
  readonly requireAdministrator: RequireAdministrator;
}

/**
 * Usage metrics. Source: container service specification, sections 2.9 and 4, rules 2 to 6; the later version
 * of the reference service answers a day of an organisation in the form of all others.
 */
export function metricsRoutes(
  router: Router<RequestState>,
  { usage, requireAdministrator }: MetricsDeps,
): void {
  const metrics: ReadonlyArray<readonly [string, Metric]> = [
    ['builds', 'builds'],
    ['pulls', 'pulls'],
    ['mounted/pulls', 'mounted'],
    [`${mountedAlias}/pulls`, 'mounted'],
  ];
  const routes = (['v1alpha2', 'v1alpha3'] as const).flatMap(version =>
    metrics.map(([path, metric]) => ({ version, path, metric })),
  );
  for (const { version, path, metric } of routes) {
    router.get(`/${version}/metrics/${path}`, async ctx => {
      await requireAdministrator(ctx.req);
      const asked = queryOf(ctx.req);
      const day = asked.get('date') || undefined;
      const org = asked.get('org') || undefined;
      if (day !== undefined && !isDay(day)) {
        throw new Fault('bad-request', "'date' must be a day of the form yyyy-mm-dd", {
          phase: 'request',
        });
      }
      if (version === 'v1alpha3' && asked.get('arch')) {
        throw new Fault(
          'bad-request',
          "'arch': this server does not count by architecture: leave it out",
          { phase: 'request' },
        );
      }
      const query = { day, org };
      const count = usage.count(metric, query);
      ctx.body =
        version === 'v1alpha2' && day !== undefined && org !== undefined
          ? { count }
          : {
              metric,
              count,
              orgs: { ...(org && { [org]: 0 }), ...usage.countByOrg(metric, query) },
            };
    });
  }
}

function isDay(text: string): boolean {
  if (!/^\d{4}-\d{2}-\d{2}$/.test(text)) return false;
  const date = new Date(`${text}T00:00:00Z`);
  return !Number.isNaN(date.getTime()) && date.toISOString().startsWith(text);
}
