import { LRUCache } from 'lru-cache';
import { boundedCache } from '../foundation/bounded-cache.ts';
import { Fault, isUnwritable } from '../foundation/fault.ts';
import { ownBytes } from '../foundation/own-bytes.ts';
import { pauseTurn } from '../foundation/pause-turn.ts';
import { SingleFlight } from '../foundation/single-flight.ts';
import { inTurns } from '../foundation/work.ts';
import type { Digest } from '../oci/digest.ts';
import {
  type Descriptor,
  type Document,
  type ImageManifest,
  isImage,
  mayBeImage,
  mayBeRunnable,
  parseManifest,
} from '../oci/index.ts';
import { isImageConfigType } from '../oci/media-type.ts';
import type { ContentStore } from '../storage/content/index.ts';
import type { AnonymousShare } from '../storage/rows/index.ts';
import type { Access, RegistryClient } from '../upstream/index.ts';

/**
 * Manifests, indexes and image configs: in memory, in the content store, or at their registry.
 * The digest reveals damage in the content store; the document is then fetched or made again.
 */
export interface Documents extends DocumentSource {
  /** Returns the manifest only when it is already stored here. */
  local(digest: Digest, mediaType: string): Promise<Document | undefined>;
  /** Returns every manifest, index and image config below a root, by digest; see {@link collectDocuments}. */
  collect(access: Access, root: Document): Promise<Map<Digest, Document>>;
  /** Stores a document that was made here, in the share of the access. Throws a {@link Fault} (429, 507). */
  keep(document: Document, access: Pick<Access, 'network'>): Promise<void>;
  /** Stores a document that the registry of the access has returned. */
  receive(access: Access, document: Document): Promise<void>;
  /** Ensures that a document for a new request is on disk and that no sweep removes it. */
  renew(document: Document, access: Pick<Access, 'network'>): Promise<void>;
}

const memoryBytes = 64 * 1024 * 1024;

/**
 * @param renewMs how long a document counts as just used (ms); well below the grace period of the sweep
 * @param share limits the documents of callers without a login
 */
export function createDocuments(
  content: ContentStore,
  registry: RegistryClient,
  renewMs: number,
  share: Pick<AnonymousShare, 'take'>,
): Documents {
  const renewedAt = boundedCache<Digest, number>(20_000);
  const memory = new LRUCache<Digest, Document>({
    maxSize: memoryBytes,
    sizeCalculation: document => document.bytes.length + 200,
  });
  const fetches = new SingleFlight<Document>();
  // Only the repository decides which documents it has. In another repository, even of the same registry,
  // a caller could name any digest that they know.
  const shown = boundedCache<string, true>(100_000);

  const local = async (digest: Digest, mediaType: string): Promise<Document | undefined> => {
    const kept = memory.get(digest);
    if (kept) return kept;
    const read = await content.read(digest);
    if (!read) return undefined;
    const document = { bytes: ownBytes(read), mediaType, digest };
    memory.set(digest, document);
    return document;
  };

  const keep = async (document: Document, { network }: Pick<Access, 'network'>): Promise<void> => {
    const { digest, bytes } = document;
    const claim = network === undefined ? undefined : content.claim(digest);
    claim?.catch(() => {});
    using room = await share.take(network, bytes.length);
    const isNew = (await claim) === false;
    memory.set(digest, { ...document, bytes: ownBytes(bytes) });
    // A sweep forgets the share of content that did not arrive.
    await Promise.all([content.write(digest, bytes), isNew ? room.keep(digest) : undefined]);
    renewedAt.set(digest, performance.now());
  };

  const renew = async (document: Document, access: Pick<Access, 'network'>): Promise<void> => {
    const { digest } = document;
    const now = performance.now();
    if (now - (renewedAt.get(digest) ?? Number.NEGATIVE_INFINITY) < renewMs) return;
    if (await content.claim(digest)) renewedAt.set(digest, now);
    else await keep(document, access);
  };

  const receive = async (access: Access, document: Document): Promise<void> => {
    try {
      await keep(document, access);
    } catch (error) {
      // Pulls use the copy in memory. A request needs the document on disk and renews it.
      if (!isUnwritable(error)) throw error;
    }
    shown.set(placeOf(access, document.digest), true);
  };

  const load = async (
    access: Access,
    { digest, mediaType }: Pick<Descriptor, 'digest' | 'mediaType'>,
    fetch: () => Promise<Document>,
  ): Promise<Document> => {
    const key = placeOf(access, digest);
    const here = shown.has(key) ? await local(digest, mediaType) : undefined;
    if (here) return here;
    const fetchAndKeep = async () => {
      const document = await fetch();
      await receive(access, document);
      return document;
    };
    return fetches.run(fetchAndKeep, { key });
  };

  const manifest = (access: Access, digest: Digest, mediaType: string) =>
    load(access, { digest, mediaType }, () => registry.getManifest(access, digest));
  const config = (access: Access, descriptor: Descriptor) =>
    load(access, descriptor, () =>
      registry.getBlob(access, descriptor.digest, descriptor.mediaType),
    );

  return {
    manifest,
    config,
    local,
    keep,
    receive,
    renew,
    collect: (access, root) => collectDocuments({ manifest, config }, access, root),
  };
}

function placeOf({ registry, repository }: Access, digest: Digest): string {
  return `${registry}/${repository}@${digest}`;
}

/** Levels of manifests below the root of an image. */
export const deepestIndex = 4;
/** Manifests and indexes of one image. */
export const mostManifests = 500;
/** Bytes of all documents of one image. */
export const mostBytes = 16 * 1024 * 1024;
const atOnce = 16;

/** Source of the documents of an image. */
interface DocumentSource {
  /**
   * Returns a manifest or index. The caller must have checked access to the repository. A stored document
   * is returned only after that repository itself has shown that it has the document.
   */
  manifest(access: Access, digest: Digest, mediaType: string): Promise<Document>;
  /** Returns the config of one image. */
  config(access: Access, descriptor: Descriptor): Promise<Document>;
}

/**
 * Returns every manifest, index and image config below a root, by digest, without missing entries of an index. Throws a
 * {@link Fault} when they are too many, or their total size is too large.
 */
export async function collectDocuments(
  { manifest, config }: DocumentSource,
  access: Access,
  root: Document,
): Promise<Map<Digest, Document>> {
  const found = new Map([[root.digest, root]]);
  let bytes = 0;

  const check = (more: number): void => {
    if (bytes + more > mostBytes) throw tooLarge(access);
  };

  const take = (document: Document): void => {
    check(document.bytes.length);
    bytes += document.bytes.length;
    found.set(document.digest, document);
  };

  /** Adds the config of an image to the result, and returns the entries of an index. */
  const visit = async (document: Document): Promise<readonly Descriptor[]> => {
    await pauseTurn();
    const parsed = parseManifest(document);
    if (parsed.kind === 'manifest' && mayBeRunnable(parsed) && !found.has(parsed.config.digest)) {
      // Checked before the fetch; the registry may have reported a wrong size.
      check(parsed.config.size);
      const own = await imageConfig({ config }, access, parsed);
      if (own) take(own);
    }
    return parsed.kind === 'index' ? parsed.manifests.filter(mayBeImage) : [];
  };

  const fetchAndVisit = async (entry: Descriptor): Promise<readonly Descriptor[]> => {
    check(entry.size);
    const child = await unlessMissing(manifest(access, entry.digest, entry.mediaType));
    if (!child) return [];
    take(child);
    return visit(child);
  };

  // Visit level by level, and each manifest once: indexes that share children would multiply the work.
  const named = new Set([root.digest]);
  let entries = await visit(root);
  for (let depth = 0; depth < deepestIndex && entries.length > 0; depth += 1) {
    const level = entries.filter(({ digest }) => !named.has(digest) && named.add(digest));
    if (named.size > mostManifests) throw tooMany(access);
    entries = (await inTurns(atOnce, level, fetchAndVisit)).flat();
  }
  return found;
}

/** Returns the config of a runnable image; undefined for an artifact. */
export async function imageConfig(
  { config }: Pick<DocumentSource, 'config'>,
  access: Access,
  manifest: ImageManifest,
): Promise<Document | undefined> {
  if (!mayBeRunnable(manifest)) return undefined;
  const found = config(access, manifest.config);
  // The registry of an artifact may lack its config: only images need theirs.
  const isKnown = isImageConfigType(manifest.config.mediaType);
  const document = await (isKnown ? found : unlessMissing(found));
  return document && isImage(manifest, document.bytes) ? document : undefined;
}

function tooMany({ registry, repository }: Access): Fault {
  return new Fault(
    'bad-request',
    `An index of ${registry}/${repository} refers to more than ${mostManifests} manifests: name one of its images by digest`,
    { phase: 'upstream' },
  );
}

function tooLarge({ registry, repository }: Access): Fault {
  return new Fault(
    'bad-request',
    `The manifests and configs of an index of ${registry}/${repository} have more than ${mostBytes} bytes together: name one of its images by digest`,
    { phase: 'upstream' },
  );
}

// An index may name images that were deleted or never pushed. Such an index is sparse, not broken.
async function unlessMissing(document: Promise<Document>): Promise<Document | undefined> {
  try {
    return await document;
  } catch (error) {
    if (error instanceof Fault && error.kind === 'manifest-unknown') return undefined;
    throw error;
  }
}
