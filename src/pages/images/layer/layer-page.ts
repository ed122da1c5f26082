import { z } from 'zod';
import { clientSignal } from '../../../http/index.ts';
import { layerChanges } from '../../../images/listing/index.ts';
import type { Identities } from '../../../platform/index.ts';
import type { LayerFilesDeps } from '../../../request/index.ts';
import { pageRoute } from '../../frame/page-route.ts';
import { inspectPath } from '../image-template.ts';
import { layerPath } from './layer-address.ts';
import { layerData } from './layer-data.ts';
import { layerContent, layerPage } from './layer-template.ts';

export interface LayerPageDeps extends LayerFilesDeps {
  readonly credentialsOf: Identities['credentialsOf'];
}

/** An empty field of a form counts as absent. */
const orAbsent = <T extends z.ZodType>(schema: T) =>
  z.preprocess(value => (value === '' ? undefined : value), schema.optional());

const layerQuery = z.object({
  image: z.string().max(1000).optional(),
  platform: z.string().max(200).optional(),
  layer: z.string().max(200).optional(),
  path: z.string().max(12_500).optional(),
  name: z.string().max(200).optional(),
  sort: orAbsent(z.enum(['size', 'name'])),
  change: orAbsent(z.enum(layerChanges)),
  page: orAbsent(z.coerce.number().int().min(1).max(10_000)),
  /** `content` asks for the part of the page that changes while the layer is read. */
  part: z.enum(['content']).optional(),
});

/** The page of a layer: who may pull the image may see what is in it. */
export const layerPages = [
  pageRoute({
    method: 'get',
    path: layerPath,
    access: 'requests',
    limit: 'requests',
    query: layerQuery,
    async run({ ctx, viewer, query }, deps: LayerPageDeps) {
      const { image = '', platform, layer = '', part, ...shown } = query;
      if (image.trim() === '' || layer === '') {
        const search = image.trim() === '' ? '' : `?${new URLSearchParams({ image })}`;
        return { location: `${inspectPath}${search}` };
      }
      const address = {
        image: image.trim(),
        platform: platform?.trim() || undefined,
        layer,
        ...shown,
        name: shown.name?.trim() || undefined,
      };
      const { user, network, address: ip, grant } = viewer.caller;
      const caller = user ?? network ?? ip;
      const data = await layerData(
        address,
        { credentials: deps.credentialsOf(grant), caller, signal: clientSignal(ctx.res) },
        deps,
      );
      return part === 'content' ? { piece: layerContent(data) } : layerPage(data);
    },
  }),
];
