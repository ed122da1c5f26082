import { cacheOfBytes } from '../foundation/bounded-cache.ts';
import { Fault } from '../foundation/fault.ts';
import type { Documents } from '../images/index.ts';
import { type Digest, isDigest } from '../oci/digest.ts';
import { type Document, parseManifest } from '../oci/index.ts';
import type { ContainerRequest } from '../request/index.ts';
import type { RegistryClient } from '../upstream/index.ts';
import type { PulledImage } from './pulled-image.ts';

// At registries without the referrers API, clients keep signatures and other referrers under tags derived from the
// subject's digest. Sources: distribution specification, Referrers Tag Schema; cosign's tags.
const referrersTag = /^sha256-([0-9a-f]{64})(?:\.[a-z]+)?$/;

// Clients request a signature or a bill of materials several times in a row.
const recentMs = 30_000;
const recentBytes = 16 * 1024 * 1024;

/** Returns the manifest that a reference names in a served image. Throws {@link Fault}. */
export type ManifestFinder = (
  request: ContainerRequest,
  image: PulledImage,
  reference: string,
) => Promise<Document>;

export function createManifestFinder(
  documents: Documents,
  registry: RegistryClient,
): ManifestFinder {
  // By token and digest: manifests that the registry has just shown to the caller.
  const recent = cacheOfBytes<string, Document>(recentBytes, ({ bytes }) => bytes.length, {
    ttl: recentMs,
  });
  const unnamedByDigest = async (token: string, image: PulledImage, digest: Digest) => {
    const key = `${token} ${digest}`;
    const kept = recent.get(key);
    if (kept) return kept;
    const document = await unnamed(image, digest);
    recent.set(key, document);
    return document;
  };

  /** Returns a manifest that the image does not name; `about` is its subject, if known. */
  const unnamed = async (image: PulledImage, reference: string, about?: Digest) => {
    const document = await registry.getManifest(image.access, reference);
    // The registry checks who may see it, except where the service asks in its own right.
    if (!image.access.isService) return document;
    const subject = about ?? subjectOf(document);
    if (!subject || !(await image.member(subject))) throw notOfImage(image, reference);
    image.learn(document);
    return document;
  };

  return async (request, image, reference) => {
    const { root, access } = image;
    if (reference === request.image.tag || reference === root.digest) return root;
    if (isDigest(reference)) {
      const entry = await image.member(reference);
      if (!entry && image.isForBuilder) throw notOfImage(image, reference);
      if (!entry) return unnamedByDigest(request.token, image, reference);
      const kept = image.owns(reference)
        ? await documents.local(reference, entry.mediaType)
        : undefined;
      const document = kept ?? (await documents.manifest(access, reference, entry.mediaType));
      image.learn(document);
      return document;
    }
    const [, hex] = referrersTag.exec(reference) ?? [];
    if (hex !== undefined) return unnamed(image, reference, `sha256:${hex}` as Digest);
    throw new Fault(
      'manifest-unknown',
      `This container token serves ${request.targetImage.slice(request.targetImage.lastIndexOf('/') + 1)} only: make a container request for other tags`,
      { phase: 'request' },
    );
  };
}

function subjectOf(document: Document): Digest | undefined {
  const manifest = parseManifest(document);
  return manifest.kind === 'manifest' || manifest.kind === 'index'
    ? manifest.subject?.digest
    : undefined;
}

function notOfImage({ access: { repository } }: PulledImage, reference: string): Fault {
  return new Fault(
    'manifest-unknown',
    `The image of ${repository} has no manifest ${reference}: make a container request for other images`,
    { phase: 'request' },
  );
}
