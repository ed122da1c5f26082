import type { FindServedBase } from '../builds/index.ts';
import type { Documents } from '../images/index.ts';
import type { FindServed } from '../request/index.ts';
import type { ImageFinder } from './image-finder.ts';

/** Finds the images that builds use by served names. */
export function createFindServedBase({
  findServed,
  findImage,
  documents,
}: {
  readonly findServed: FindServed;
  readonly findImage: ImageFinder;
  readonly documents: Documents;
}): FindServedBase {
  return async name => {
    const request = await findServed(name);
    if (!request) return undefined;
    const { root, access, owns } = await findImage(request);
    const kept = async (digest: Parameters<typeof owns>[0], mediaType: string) =>
      owns(digest) ? documents.local(digest, mediaType) : undefined;
    return {
      root,
      access,
      owns,
      repository: request.image.repository,
      isPublic: request.isPublic === true,
      documents: {
        manifest: async (of, digest, mediaType) =>
          (await kept(digest, mediaType)) ?? documents.manifest(of, digest, mediaType),
        config: async (of, config) =>
          (await kept(config.digest, config.mediaType)) ?? documents.config(of, config),
      },
    };
  };
}
