import { Fault } from '../fault.ts';
import type { Documents } from '../images/documents.ts';
import { isDigest } from '../oci/digest.ts';
import type { Document } from '../oci/document.ts';
import type { ContainerRequest } from '../request/container-request.ts';
import type { RegistryClient } from '../upstream/registry-client.ts';
import type { PulledImage } from './image.ts';

// Where registries have no referrers API, clients keep signatures and other referrers under tags made
// from the subject's digest. Sources: distribution specification, Referrers Tag Schema; cosign's tags.
const referrersTag = /^sha256-[0-9a-f]{64}(?:\.[a-z]+)?$/;

/** The manifest that a reference stands for in a served image. Throws {@link Fault}. */
export type ManifestFinder = (
  request: ContainerRequest,
  image: PulledImage,
  reference: string,
) => Promise<Document>;

export function createManifestFinder(
  documents: Documents,
  registry: RegistryClient,
): ManifestFinder {
  return async (request, image, reference) => {
    const { root, access } = image;
    if (reference === request.image.tag || reference === root.digest) return root;
    if (isDigest(reference)) {
      const entry = await image.member(reference);
      // What is not known to be of this image is asked of the registry, which knows who may see it.
      if (!entry) return registry.getManifest(access, reference);
      const kept = image.owns(reference)
        ? await documents.local(reference, entry.mediaType)
        : undefined;
      const document = kept ?? (await documents.manifest(access, reference, entry.mediaType));
      image.learn(document);
      return document;
    }
    if (referrersTag.test(reference)) return registry.getManifest(access, reference);
    throw new Fault(
      'manifest-unknown',
      `This container token serves ${request.targetImage.slice(request.targetImage.lastIndexOf('/') + 1)} only: make a container request for other tags`,
      { phase: 'request' },
    );
  };
}
