import { z } from 'zod';
import type { Identities } from '../../platform/index.ts';
import { chooseImage, type OpenInspected } from '../../request/index.ts';
import type { RegistryClient } from '../../upstream/index.ts';
import { pageRoute } from '../frame/page-route.ts';
import { findReferrers } from './image-referrers.ts';
import { askForImage, imagePage, inspectPath } from './image-template.ts';
import { viewImage } from './image-view.ts';

export interface InspectPageDeps {
  readonly openInspected: OpenInspected;
  readonly registry: RegistryClient;
  readonly credentialsOf: Identities['credentialsOf'];
}

/** The image and platform that a page is about. */
export const imageQuery = z.object({
  image: z.string().max(1000).optional(),
  platform: z.string().max(200).optional(),
});

export const inspectPage = pageRoute({
  method: 'get',
  path: inspectPath,
  access: 'requests',
  limit: 'requests',
  query: imageQuery,
  async run({ viewer, query }, { openInspected, registry, credentialsOf }: InspectPageDeps) {
    const image = query.image?.trim();
    const platform = query.platform?.trim() || undefined;
    if (!image) return askForImage();
    const credentials = credentialsOf(viewer.caller.grant);
    const chosen = await chooseImage(openInspected, image, platform, credentials);
    const [view, referrers] = await Promise.all([
      viewImage(chosen),
      findReferrers(registry, chosen),
    ]);
    return imagePage(image, view, referrers);
  },
});
