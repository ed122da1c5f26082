import { type EndRequestDeps, endRequest } from '../../http/api/index.ts';
import { pageRoute } from '../frame/page-route.ts';

/** The form that ends a container request, with the right that the API requires. */
export const endRoutes = [
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
