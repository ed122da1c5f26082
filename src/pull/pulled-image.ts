import { cacheOfBytes } from '../foundation/bounded-cache.ts';
import { Fault } from '../foundation/fault.ts';
import { type ImageChange, layersIn } from '../images/augment/image-change.ts';
import type { Documents } from '../images/documents.ts';
import type { ImageMaker, MadeImage } from '../images/image-maker.ts';
import type { Descriptor } from '../oci/descriptor.ts';
import type { Digest } from '../oci/digest.ts';
import type { Document } from '../oci/document.ts';
import { manifestType, parseManifest } from '../oci/manifest.ts';
import { isElsewhere } from '../oci/media-type.ts';
import type { ContainerRequest, FixedImage, ManifestName } from '../request/container-request.ts';
import type { Access } from '../upstream/access.ts';
import type { LookAtRight, Standing } from './pull-right.ts';

/** A served image, as far as its documents are here: what belongs to it may be served from what is kept. */
export interface PulledImage {
  readonly root: Document;
  readonly access: Access;
  /** A manifest, config or layer that belongs to the image; undefined when it is not known to. */
  member(digest: Digest): Promise<Member | undefined>;
  /**
   * True for what was written or taken in for this image, or was shown to who asked for it: that is
   * served from what is kept, whatever its registry says now. The rest is only named by the image.
   */
  owns(digest: Digest): boolean;
  /** Makes known what a manifest of the image holds. */
  learn(manifest: Document): void;
  /** What it takes in memory, about; grows with what it learns. */
  bytes(): number;
}

/** Content that a manifest names. */
export interface Member extends Pick<Descriptor, 'mediaType' | 'digest' | 'size'> {
  /** The manifest says that it may be elsewhere. */
  readonly isElsewhere: boolean;
}

export type ImageFinder = (request: ContainerRequest) => Promise<PulledImage>;

// About 4000 usual images. How large an image is in memory depends on its registry.
const keptBytes = 64 * 1024 * 1024;

export interface ImageFinderDeps {
  readonly documents: Documents;
  readonly makeImage: ImageMaker;
  readonly lookAtRight: LookAtRight;
  /** What the build of a request has made; waits a while for it. Throws a {@link Fault} that tells how it stands. */
  readonly builtBy: (request: ContainerRequest) => Promise<ManifestName>;
}

interface Kept extends Standing {
  readonly image: PulledImage;
  /** From then on the right is checked before its time ends, so that no pull waits for it. */
  readonly renewAt: number;
}

export function createImageFinder({
  documents,
  makeImage,
  lookAtRight,
  builtBy,
}: ImageFinderDeps): ImageFinder {
  const images = cacheOfBytes<string, Kept>(keptBytes, ({ image }) => image.bytes());
  const renewing = new Set<string>();

  const find = async (request: ContainerRequest, access: Access): Promise<PulledImage> => {
    const { fixed, change } = request;
    const { root, members } = fixed
      ? await findRoot(documents, makeImage, access, fixed, change)
      : await makeRoot(documents, makeImage, access, await builtBy(request), change);
    const layers = layersIn(change).map(({ gzipDigest }) => gzipDigest);
    // Measured again when it has grown.
    const onGrow = () => {
      const kept = images.peek(request.token);
      if (kept) images.set(request.token, { ...kept });
    };
    return createImage(root, new Set([...members, ...layers]), access, documents, onGrow);
  };

  const look = async (request: ContainerRequest, image?: PulledImage): Promise<PulledImage> => {
    const standing = await lookAtRight(request);
    const { access, until } = standing;
    const found = image ? { ...image, access } : await find(request, access);
    const now = performance.now();
    const renewAt = now + (until - now) / 2;
    images.set(request.token, { ...standing, image: found, renewAt });
    return found;
  };

  const renew = async (request: ContainerRequest, image: PulledImage): Promise<void> => {
    const { token } = request;
    if (renewing.has(token)) return;
    renewing.add(token);
    try {
      await look(request, image);
    } catch {
      // The next pull checks again, and reports the error to its client.
      images.delete(token);
    } finally {
      renewing.delete(token);
    }
  };

  return async request => {
    const kept = images.get(request.token);
    const now = performance.now();
    if (!kept || now >= kept.until) return look(request, kept?.image);
    if (now >= kept.renewAt) void renew(request, kept.image);
    return kept.image;
  };
}

async function findRoot(
  documents: Documents,
  makeImage: ImageMaker,
  access: Access,
  { base, served, members = [served.digest] }: FixedImage,
  change: ImageChange,
): Promise<RootOfImage> {
  const root = await documents.local(served.digest, served.mediaType);
  if (root) return { root, members };
  // Lost from the content store, or asked for at another replica: made again, it is the same.
  const made = await makeRoot(documents, makeImage, access, base, change);
  if (made.root.digest !== served.digest) {
    throw new Fault(
      'unavailable',
      'The image of this container token cannot be made again as it was: make a new container request',
      { phase: 'augment' },
    );
  }
  return made;
}

type RootOfImage = Pick<MadeImage, 'root' | 'members'>;

async function makeRoot(
  documents: Documents,
  makeImage: ImageMaker,
  access: Access,
  base: ManifestName,
  change: ImageChange,
): Promise<RootOfImage> {
  const document = await documents.manifest(access, base.digest, base.mediaType);
  return makeImage(access, document, change);
}

const bytesOfMember = 300;
const bytesOfDigest = 100;

function createImage(
  root: Document,
  owned: ReadonlySet<Digest>,
  access: Access,
  documents: Documents,
  onGrow: () => void,
): PulledImage {
  const members = new Map<Digest, Member>();
  let memberBytes = 0;
  const learned = new Set<Digest>();
  let searched: Promise<void> | undefined;

  const add = (
    { digest, mediaType, size }: Omit<Member, 'isElsewhere'>,
    isElsewhere: boolean,
  ): void => {
    if (!members.has(digest)) memberBytes += bytesOfMember + mediaType.length;
    members.set(digest, { digest, mediaType, size, isElsewhere });
  };

  const learn = (document: Document): readonly Descriptor[] => {
    if (learned.has(document.digest)) return [];
    learned.add(document.digest);
    const manifest = parseManifest(document);
    if (manifest.kind === 'manifest') {
      for (const part of [manifest.config, ...manifest.layers]) add(part, isElsewhere(part));
    }
    if (manifest.kind !== 'index') return [];
    for (const entry of manifest.manifests) add(entry, isElsewhere(entry));
    return manifest.manifests;
  };

  const search = async (entries: readonly Descriptor[]): Promise<void> => {
    for (const entry of entries) {
      const child = await documents.local(entry.digest, entry.mediaType);
      if (child) await search(learn(child));
    }
  };

  const { digest, bytes } = root;
  add({ digest, mediaType: manifestType(root), size: bytes.length }, false);
  const entries = learn(root);

  return {
    root,
    access,
    learn(document) {
      if (learned.has(document.digest)) return;
      learn(document);
      onGrow();
    },
    bytes: () => bytes.length + memberBytes + (owned.size + learned.size) * bytesOfDigest,
    owns: digest => owned.has(digest),
    async member(digest) {
      const found = members.get(digest);
      if (found) return found;
      // All who come while it runs wait for it: what belongs to the image must not seem foreign.
      searched ??= search(entries).then(onGrow);
      await searched;
      return members.get(digest);
    },
  };
}
