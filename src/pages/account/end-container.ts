import type { NoteDeed } from '../../http/callers/audit-notes.ts';
import { formatReference } from '../../oci/reference.ts';
import type { TokenRegistry } from '../../request/tokens/token-registry.ts';
import { pageRoute } from '../frame/page-route.ts';

interface EndDeps {
  readonly tokens: TokenRegistry;
  readonly noteDeed: NoteDeed;
}

/** The form that ends a container request, with the right that the API requires. */
export const endRoutes = [
  pageRoute({
    method: 'post',
    path: '/view/containers/{token}/end',
    access: 'administrator',
    async run({ ctx, params: { token } }, { tokens, noteDeed }: EndDeps) {
      await tokens.revoke(token);
      const { label, image } = await tokens.describe(token);
      noteDeed(ctx.req, 'request.end', `${label} of ${formatReference(image)}`);
      return { location: `/view/containers/${encodeURIComponent(token)}` };
    },
  }),
];
