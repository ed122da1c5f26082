import type { Documents } from '../../images/index.ts';
import type { Digest } from '../../oci/digest.ts';
import type { Document } from '../../oci/index.ts';
import type { Reference } from '../../oci/naming.ts';
import type { Access } from '../../upstream/index.ts';
import type { ContainerRequest } from '../container-request.ts';
import type { FindServed } from '../served-name.ts';

/** An image to inspect, and access to its documents. */
export interface InspectedImage {
  readonly access: Access;
  readonly root: Document;
  readonly documents: Pick<Documents, 'manifest' | 'config'>;
  /** Returns true for content that was written or submitted for the image, and is here. Default: nothing is. */
  owns?(digest: Digest): boolean;
}

/** Returns the image of a served name as clients pull it; undefined for other images. Throws a `Fault`. */
export type OpenServed = (image: Reference) => Promise<InspectedImage | undefined>;

/** Returns the image of a container request as clients pull it. Throws a `Fault`. */
export type OpenRequest = (request: ContainerRequest) => Promise<InspectedImage>;

export interface OpenRequestDeps {
  /** Finds the served image, with the rights of the caller that made the container request. */
  readonly findImage: (
    request: ContainerRequest,
  ) => Promise<Pick<InspectedImage, 'access' | 'root'> & { owns(digest: Digest): boolean }>;
  readonly documents: Pick<Documents, 'local' | 'manifest' | 'config'>;
}

export function createOpenRequest({ findImage, documents }: OpenRequestDeps): OpenRequest {
  return async request => {
    const image = await findImage(request);
    // Documents written for the image are here, and not in any registry.
    const written = async (digest: Digest, mediaType: string) =>
      image.owns(digest) ? documents.local(digest, mediaType) : undefined;
    return {
      access: image.access,
      root: image.root,
      owns: digest => image.owns(digest),
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

export function createOpenServed(findServed: FindServed, openRequest: OpenRequest): OpenServed {
  return async name => {
    const request = await findServed(name);
    return request && openRequest(request);
  };
}
