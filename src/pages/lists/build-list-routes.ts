import { z } from 'zod';
import { requesterOf } from '../../http/api/index.ts';
import type { RequireAdministrator } from '../../http/index.ts';
import { requireScope } from '../../platform/built-in/index.ts';
import { optional } from '../frame/form-body.ts';
import { pageRoute } from '../frame/page-route.ts';
import { type BuildListSources, buildStates, listBuilds, listedKinds } from './build-list.ts';
import { buildListPage, buildTable, noBuildsPage } from './build-list-page.ts';

export interface BuildListDeps extends BuildListSources {
  readonly requireAdministrator: RequireAdministrator;
}

const query = z.object({
  state: optional(z.enum(buildStates)),
  kind: optional(z.enum(listedKinds)),
  target: optional(z.string().trim().max(200)),
  before: optional(z.coerce.number().int().min(0).max(Number.MAX_SAFE_INTEGER)),
  scope: optional(z.enum(['own', 'all'])),
  part: optional(z.literal('table')),
});

/** The list of builds. An id of a build gives access to it, so a viewer sees the viewer's own builds only. */
export const buildListRoutes = [
  pageRoute({
    method: 'get',
    path: '/view/builds',
    access: 'anybody',
    query,
    async run({ query: { scope: wanted, part, ...filter }, viewer }, deps: BuildListDeps) {
      const maySeeAll = viewer.isAdministrator;
      // Callers without a login share the network that their builds are recorded with.
      if (!maySeeAll && viewer.caller.user === undefined) return noBuildsPage();
      if (!maySeeAll) requireScope(viewer.caller.rights, 'build');
      const scope = maySeeAll ? (wanted ?? 'all') : 'own';
      const caller = scope === 'own' ? requesterOf(viewer.caller) : undefined;
      const view = { list: await listBuilds(caller, filter, deps), filter, scope, maySeeAll };
      if (part === 'table') return { piece: buildTable(view, Date.now()) };
      return buildListPage(view, Date.now());
    },
  }),
];
