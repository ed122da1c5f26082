import { pauseTurn } from '../foundation/pause-turn.ts';
import { type Documents, deepestIndex, mostBytes, mostManifests } from '../images/index.ts';
import type { Digest } from '../oci/digest.ts';
import { type Descriptor, type Document, manifestType, parseManifest } from '../oci/index.ts';
import { isElsewhere } from '../oci/media-type.ts';
import type { Access } from '../upstream/index.ts';

/** A served image, and its known content. */
export interface PulledImage {
  readonly root: Document;
  readonly access: Access;
  /** True for a builder: all of the image is known, nothing else is served with it, and copies of it are kept. */
  readonly isForBuilder: boolean;
  /** Returns a manifest, config or layer of the image; undefined for content that is not known to belong to it. */
  member(digest: Digest): Promise<Member | undefined>;
  /**
   * Returns true for content that was written or submitted for this image, or that its registry has shown to the
   * caller. Kept copies of it are served without asking the registry again. The image only names all other content.
   */
  owns(digest: Digest): boolean;
  /** Adds the content that a manifest of the image names. */
  learn(manifest: Document): void;
  /** Returns the approximate size of the image in memory; it grows with `learn`. */
  bytes(): number;
}

/** Content that a manifest names. */
export interface Member extends Pick<Descriptor, 'mediaType' | 'digest' | 'size'> {
  /** True if the manifest says that the content may be elsewhere. */
  readonly isElsewhere: boolean;
}

const bytesOfMember = 300;
const bytesOfDigest = 100;

export interface PulledImageParts extends Pick<PulledImage, 'root' | 'access'> {
  /** Digests of content for which {@link PulledImage.owns} returns true. */
  readonly owned: ReadonlySet<Digest>;
  readonly documents: Pick<Documents, 'local'>;
  /** Default: false. */
  readonly isForBuilder?: boolean;
  /** Called when {@link PulledImage.bytes} has grown. */
  readonly onGrow: () => void;
}

export function createPulledImage({
  root,
  access,
  owned,
  documents,
  isForBuilder = false,
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

  /** Returns the entries of an index. */
  const learn = (document: Document): readonly Descriptor[] => {
    const manifest = parseManifest(document);
    const isNew = !learned.has(document.digest);
    learned.add(document.digest);
    if (manifest.kind === 'manifest' && isNew) {
      for (const part of [manifest.config, ...manifest.layers]) add(part, isElsewhere(part));
    }
    if (manifest.kind !== 'index') return [];
    if (isNew) for (const entry of manifest.manifests) add(entry, isElsewhere(entry));
    return manifest.manifests;
  };

  /** Learns the stored manifests below the root, within the limits of a collected image. */
  const search = async (): Promise<void> => {
    // Level by level, and each digest once: indexes that share children would multiply the work.
    const named = new Set([root.digest]);
    let found = 0;
    let foundBytes = 0;
    let entries = rootEntries;
    for (let depth = 0; depth < deepestIndex && entries.length > 0; depth += 1) {
      const below: Descriptor[] = [];
      for (const entry of entries) {
        if (named.has(entry.digest)) continue;
        named.add(entry.digest);
        // Documents in memory arrive without a turn of the event loop.
        await pauseTurn();
        const child = await documents.local(entry.digest, entry.mediaType);
        if (!child) continue;
        found += 1;
        foundBytes += child.bytes.length;
        if (found > mostManifests || foundBytes > mostBytes) return;
        for (const next of learn(child)) below.push(next);
      }
      entries = below;
    }
  };

  const { digest, bytes } = root;
  add({ digest, mediaType: manifestType(root), size: bytes.length }, false);
  const rootEntries = learn(root);

  return {
    root,
    access,
    isForBuilder,
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
      // Every caller waits for the search: otherwise content of the image would seem foreign.
      searched ??= search()
        .then(onGrow)
        .catch(error => {
          // The next caller searches again.
          searched = undefined;
          throw error;
        });
      await searched;
      return members.get(digest);
    },
  };
}
