import { cacheOfBytes } from '../foundation/bounded-cache.ts';
import { Fault } from '../foundation/fault.ts';
import { pauseTurn } from '../foundation/pause-turn.ts';
import { rememberSuccess } from '../foundation/work.ts';
import { type Documents, deepestIndex, mostBytes, mostManifests } from '../images/index.ts';
import { type Digest, isDigest } from '../oci/digest.ts';
import { type Descriptor, type Document, manifestType, parseManifest } from '../oci/index.ts';
import { isElsewhere } from '../oci/media-type.ts';
import type { ContainerRequest } from '../request/index.ts';
import type { Access, RegistryClient } from '../upstream/index.ts';

/** A served image, and its known content. */
export interface PulledImage {
  readonly root: Document;
  readonly access: Access;
  /**
   * Who reads the image. All of it is known for a builder, and copies of it are kept. A scanner reaches no other host.
   * {@link servedWith} says what else they see.
   */
  readonly reader: 'client' | 'builder' | 'scanner';
  /** Returns a manifest, config or layer of the image; undefined for content that is not known to belong to it. */
  member(digest: Digest): Promise<Member | undefined>;
  /**
   * Returns true for content that was written or submitted for this image, or that its registry has shown to the
   * caller. Kept copies of it are served without asking the registry again. The image only names all other content.
   */
  owns(digest: Digest): boolean;
  /** Returns a document that is kept with the image, in memory only. */
  held?(digest: Digest): Document | undefined;
  /** Adds the content that a manifest of the image names. */
  learn(manifest: Document): void;
  /** Returns the approximate size of the image in memory; it grows with `learn`. */
  bytes(): number;
}

/**
 * Returns what is served with an image:
 * - `everything`: what the registry shows to the caller, in the caller's own right.
 * - `referrers`: manifests about the image. The service requests them in its own right, in which the registry shows the images of
 *   all callers.
 * - `nothing`: a builder or a scanner sees the image alone. A list names what refers to it.
 */
export function servedWith({
  access,
  reader,
}: Pick<PulledImage, 'access' | 'reader'>): 'everything' | 'referrers' | 'nothing' {
  if (reader !== 'client') return 'nothing';
  return access.isService ? 'referrers' : 'everything';
}

/** Content that a manifest names. */
export interface Member extends Pick<Descriptor, 'mediaType' | 'digest' | 'size'> {
  /** True if the manifest says that the content may be elsewhere. */
  readonly isElsewhere: boolean;
}

const bytesOfMember = 300;
const bytesOfDigest = 100;

interface PulledImageParts extends Pick<PulledImage, 'root' | 'access'> {
  /** Digests of content for which {@link PulledImage.owns} returns true. */
  readonly owned: ReadonlySet<Digest>;
  readonly documents: Pick<Documents, 'local'>;
  /** Default: a client. */
  readonly reader?: PulledImage['reader'];
  /** Called when {@link PulledImage.bytes} has grown. */
  readonly onGrow: () => void;
}

export function createPulledImage({
  root,
  access,
  owned,
  documents,
  reader = 'client',
  onGrow,
}: PulledImageParts): PulledImage {
  const members = new Map<Digest, Member>();
  let memberBytes = 0;
  const learned = new Set<Digest>();

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
  const searched = rememberSuccess(async () => {
    await search();
    onGrow();
  });

  const { digest, bytes } = root;
  add({ digest, mediaType: manifestType(root), size: bytes.length }, false);
  const rootEntries = learn(root);

  return {
    root,
    access,
    reader,
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
      await searched.get();
      return members.get(digest);
    },
  };
}

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
    if (servedWith(image) === 'everything') return document;
    const subject = about ?? subjectOf(document);
    if (!subject || !(await image.member(subject))) throw notOfImage(image, reference);
    image.learn(document);
    return document;
  };

  return async (request, image, reference) => {
    const { root, access } = image;
    if (reference === request.image.tag || reference === root.digest) return root;
    if (isDigest(reference)) {
      const held = image.held?.(reference);
      if (held) return held;
      const entry = await image.member(reference);
      if (!entry && servedWith(image) === 'nothing') throw notOfImage(image, reference);
      if (!entry) return unnamedByDigest(request.token, image, reference);
      const kept = image.owns(reference)
        ? await documents.local(reference, entry.mediaType)
        : undefined;
      const document = kept ?? (await documents.manifest(access, reference, entry.mediaType));
      image.learn(document);
      return document;
    }
    const [, hex] = referrersTag.exec(reference) ?? [];
    if (hex !== undefined && servedWith(image) !== 'nothing')
      return unnamed(image, reference, `sha256:${hex}` as Digest);
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
