import { Fault } from '../foundation/fault.ts';
import { pauseTurn } from '../foundation/pause-turn.ts';
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
import type { Access } from '../upstream/index.ts';

/** Levels of manifests below the root of an image. */
export const deepestIndex = 4;
/** Manifests and indexes of one image. */
export const mostManifests = 500;
/** Bytes of all documents of one image. */
export const mostBytes = 16 * 1024 * 1024;
const atOnce = 16;

/** Source of the documents of an image. */
export interface DocumentSource {
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
    entries = (await inOrder(level, fetchAndVisit)).flat();
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

/** Does the work for each item, a limited number at a time. The first failure stops it. */
async function inOrder<T, R>(items: readonly T[], work: (item: T) => Promise<R>): Promise<R[]> {
  const results: R[] = [];
  const queue = items.entries();
  let hasFailed = false;
  const workOn = async (): Promise<void> => {
    for (const [position, item] of queue) {
      if (hasFailed) return;
      try {
        results[position] = await work(item);
      } catch (error) {
        hasFailed = true;
        throw error;
      }
    }
  };
  await Promise.all(Array.from({ length: Math.min(atOnce, items.length) }, workOn));
  return results;
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
