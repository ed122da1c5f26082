import type { Documents } from '../images/documents.ts';
import type { Descriptor } from '../oci/descriptor.ts';
import type { Digest } from '../oci/digest.ts';
import type { Document } from '../oci/document.ts';
import { manifestType, parseManifest } from '../oci/manifest.ts';
import { isElsewhere } from '../oci/media-type.ts';
import type { Access } from '../upstream/access.ts';

/** A served image, and what is known to belong to it. */
export interface PulledImage {
  readonly root: Document;
  readonly access: Access;
  /** Returns a manifest, config or layer of the image; undefined for content that is not known to belong to it. */
  member(digest: Digest): Promise<Member | undefined>;
  /**
   * True for content that was written or taken in for this image, or that its registry has shown to the caller:
   * it is served from what is kept, whatever the registry says now. The image only names the rest.
   */
  owns(digest: Digest): boolean;
  /** Adds what a manifest of the image names. */
  learn(manifest: Document): void;
  /** Returns about how much memory the image takes; it grows with what it learns. */
  bytes(): number;
}

/** Content that a manifest names. */
export interface Member extends Pick<Descriptor, 'mediaType' | 'digest' | 'size'> {
  /** The manifest says that the content may be elsewhere. */
  readonly isElsewhere: boolean;
}

const bytesOfMember = 300;
const bytesOfDigest = 100;

export interface PulledImageParts extends Pick<PulledImage, 'root' | 'access'> {
  /** Digests of the content for which {@link PulledImage.owns} is true. */
  readonly owned: ReadonlySet<Digest>;
  readonly documents: Pick<Documents, 'local'>;
  /** Called when {@link PulledImage.bytes} has grown. */
  readonly onGrow: () => void;
}

export function createPulledImage({
  root,
  access,
  owned,
  documents,
  onGrow,
}: PulledImageParts): PulledImage {
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
      // Every caller waits for the search: content of the image must not seem foreign meanwhile.
      searched ??= search(entries).then(onGrow);
      await searched;
      return members.get(digest);
    },
  };
}
