import { z } from 'zod';
import { type EndRequestDeps, endRequest, isOwner } from '../../http/api/index.ts';
import { hasScope } from '../../platform/built-in/index.ts';
import { pageRoute } from '../frame/page-route.ts';
import { type ContainerPageDeps, containerData } from './container-data.ts';
import { containerPage } from './container-template.ts';

/** The page of a container request. Its token is enough to see it, as with the JSON API. */
export const containerPages = [
  pageRoute({
    method: 'get',
    path: '/view/containers/{token}',
    access: 'anybody',
    isShared: true,
    query: z.object({ platform: z.string().max(100).optional() }),
    async run({ params, query, viewer }, deps: ContainerPageDeps) {
      const data = await containerData(params.token, query.platform, viewer, deps);
      const { caller, isAdministrator } = viewer;
      const mayEnd =
        isAdministrator || (hasScope(caller.rights, 'request') && isOwner(caller, data.request));
      return containerPage(data, mayEnd, Date.now());
    },
  }),
  // Its address before the page of a new container was that of every container.
  pageRoute({
    method: 'get',
    path: '/view/asked/{token}',
    access: 'anybody',
    async run({ params }, { tokens }: ContainerPageDeps) {
      const { token } = await tokens.describe(params.token);
      return { location: `/view/containers/${token}` };
    },
  }),
  // With the right that the API requires.
  pageRoute({
    method: 'post',
    path: '/view/containers/{token}/end',
    access: 'anybody',
    async run({ ctx, viewer, params: { token } }, deps: EndRequestDeps) {
      await endRequest(ctx.req, viewer.caller, token, deps);
      return { location: `/view/containers/${encodeURIComponent(token)}` };
    },
  }),
];
