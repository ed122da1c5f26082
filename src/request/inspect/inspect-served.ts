import type { Documents } from '../../images/documents.ts';
import type { Digest } from '../../oci/digest.ts';
import type { Document } from '../../oci/document.ts';
import type { Reference } from '../../oci/reference.ts';
import type { Access } from '../../upstream/access.ts';
import type { ContainerRequest } from '../container-request.ts';
import type { FindServed } from '../served-name.ts';

/** An image that is to be inspected, and where its documents are. */
export interface InspectedImage {
  readonly access: Access;
  readonly root: Document;
  readonly documents: Pick<Documents, 'manifest' | 'config'>;
}

/** What a served name is as clients pull it; undefined for other images. Throws a `Fault`. */
export type OpenServed = (image: Reference) => Promise<InspectedImage | undefined>;

export interface OpenServedDeps {
  readonly findServed: FindServed;
  /** Finds what is served, in the right of who made the container request. */
  readonly findImage: (
    request: ContainerRequest,
  ) => Promise<Pick<InspectedImage, 'access' | 'root'> & { owns(digest: Digest): boolean }>;
  readonly documents: Pick<Documents, 'local' | 'manifest' | 'config'>;
}

export function createOpenServed({ findServed, findImage, documents }: OpenServedDeps): OpenServed {
  return async name => {
    const request = await findServed(name);
    if (!request) return undefined;
    const image = await findImage(request);
    // What was written for the image is here, and at no registry.
    const written = async (digest: Digest, mediaType: string) =>
      image.owns(digest) ? documents.local(digest, mediaType) : undefined;
    return {
      access: image.access,
      root: image.root,
      documents: {
        manifest: async (access, digest, mediaType) =>
          (await written(digest, mediaType)) ?? documents.manifest(access, digest, mediaType),
        config: async (access, descriptor) =>
          (await written(descriptor.digest, descriptor.mediaType)) ??
          documents.config(access, descriptor),
      },
    };
  };
}
