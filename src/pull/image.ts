import { LRUCache } from 'lru-cache';
import type { ImageChange } from '../augment/image-change.ts';
import { Fault } from '../fault.ts';
import type { Documents } from '../images/documents.ts';
import type { ImageMaker } from '../images/image-maker.ts';
import type { Descriptor } from '../oci/descriptor.ts';
import type { Digest } from '../oci/digest.ts';
import type { Document } from '../oci/document.ts';
import { manifestType, parseManifest } from '../oci/manifest.ts';
import type { Reference } from '../oci/reference.ts';
import type { ContainerRequest, FixedImage, ManifestName } from '../request/container-request.ts';
import { type Access, accessTo } from '../upstream/authorizer.ts';
import type { CredentialSource } from '../upstream/credentials.ts';

/** A served image, as far as its documents are here: what belongs to it may be served from what is kept. */
export interface PulledImage {
  readonly root: Document;
  readonly access: Access;
  /** The descriptor of a manifest, config or layer that belongs to the image; undefined when it is not known to. */
  member(digest: Digest): Promise<Descriptor | undefined>;
  /** Makes known what a manifest of the image holds. */
  learn(manifest: Document): void;
}

export type ImageFinder = (request: ContainerRequest) => Promise<PulledImage>;

const keptImages = 2000;

export interface ImageFinderDeps {
  readonly documents: Documents;
  readonly makeImage: ImageMaker;
  readonly credentials: CredentialSource;
  readonly accessToBuilt: (image: Reference) => Promise<Access>;
  /** What the build of a request has made; waits a while for it. Throws a {@link Fault} that tells how it stands. */
  readonly builtBy: (request: ContainerRequest) => Promise<ManifestName>;
}

export function createImageFinder({
  documents,
  makeImage,
  credentials,
  accessToBuilt,
  builtBy,
}: ImageFinderDeps): ImageFinder {
  const images = new LRUCache<string, PulledImage>({ max: keptImages });

  return async request => {
    const kept = images.get(request.token);
    if (kept) return kept;
    const { image: named, isBuilt } = request;
    const access = await (isBuilt ? accessToBuilt(named) : accessTo(named, credentials));
    const root = request.fixed
      ? await findRoot(documents, makeImage, access, request.fixed, request.change)
      : await makeRoot(documents, makeImage, access, await builtBy(request), request.change);
    const image = createImage(root, access, documents);
    images.set(request.token, image);
    return image;
  };
}

async function findRoot(
  documents: Documents,
  makeImage: ImageMaker,
  access: Access,
  { base, served }: FixedImage,
  change: ImageChange,
): Promise<Document> {
  const kept = await documents.local(served.digest, served.mediaType);
  if (kept) return kept;
  // Lost from the content store, or asked for at another replica: made again, it is the same.
  const root = await makeRoot(documents, makeImage, access, base, change);
  if (root.digest !== served.digest) {
    throw new Fault(
      'unavailable',
      'The image of this container token cannot be made again as it was: make a new container request',
      { phase: 'augment' },
    );
  }
  return root;
}

async function makeRoot(
  documents: Documents,
  makeImage: ImageMaker,
  access: Access,
  base: ManifestName,
  change: ImageChange,
): Promise<Document> {
  const document = await documents.manifest(access, base.digest, base.mediaType);
  return (await makeImage(access, document, change)).root;
}

function createImage(root: Document, access: Access, documents: Documents): PulledImage {
  const members = new Map<Digest, Descriptor>();
  const learned = new Set<Digest>();
  let searched: Promise<void> | undefined;

  const learn = (document: Document): readonly Descriptor[] => {
    if (learned.has(document.digest)) return [];
    learned.add(document.digest);
    const manifest = parseManifest(document);
    if (manifest.kind === 'manifest') {
      for (const part of [manifest.config, ...manifest.layers]) members.set(part.digest, part);
    }
    if (manifest.kind !== 'index') return [];
    for (const entry of manifest.manifests) members.set(entry.digest, entry);
    return manifest.manifests;
  };

  const search = async (entries: readonly Descriptor[]): Promise<void> => {
    for (const entry of entries) {
      const child = await documents.local(entry.digest, entry.mediaType);
      if (child) await search(learn(child));
    }
  };

  const { digest, bytes } = root;
  members.set(digest, { digest, mediaType: manifestType(root), size: bytes.length });
  const entries = learn(root);

  return {
    root,
    access,
    learn,
    async member(digest) {
      const found = members.get(digest);
      if (found) return found;
      // All who come while it runs wait for it: what belongs to the image must not seem foreign.
      searched ??= search(entries);
      await searched;
      return members.get(digest);
    },
  };
}
