import { isDigest } from '../oci/digest.ts';
import { mediaTypes } from '../oci/media-type.ts';
import type { ContainerRequest } from '../request/container-request.ts';
import type { JsonAnswer, RegistryClient } from '../upstream/registry-client.ts';
import type { PulledImage } from './image.ts';

/**
 * What a registry lists about a served image: `tags/list`, or `referrers/<digest>`. Where the service asks in
 * its own right, the repository is shared by many who build: they are told of their own image only. Throws `Fault`.
 */
export async function listingOf(
  registry: RegistryClient,
  { image: { repository, tag } }: Pick<ContainerRequest, 'image'>,
  image: PulledImage,
  path: string,
  query: string,
): Promise<JsonAnswer> {
  if (image.access.isService) {
    if (path === 'tags/list') {
      return json('application/json', { name: repository, tags: tag === undefined ? [] : [tag] });
    }
    const subject = path.slice(path.indexOf('/') + 1);
    if (!isDigest(subject) || !(await image.member(subject))) {
      const { ociIndex } = mediaTypes;
      return json(ociIndex, { schemaVersion: 2, mediaType: ociIndex, manifests: [] });
    }
  }
  return registry.getJson(image.access, path, query);
}

function json(contentType: string, body: object): JsonAnswer {
  const headers = new Map([['content-type', contentType]]);
  return { status: 200, headers, body: Buffer.from(JSON.stringify(body)) };
}
