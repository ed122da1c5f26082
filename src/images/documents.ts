import { LRUCache } from 'lru-cache';
import { boundedCache } from '../bounded-cache.ts';
import type { ContentStore } from '../content/content-store.ts';
import { Fault } from '../fault.ts';
import type { Descriptor } from '../oci/descriptor.ts';
import type { Digest } from '../oci/digest.ts';
import type { Document } from '../oci/document.ts';
import { mayBeImage } from '../oci/index-entry.ts';
import { isImage, parseManifest } from '../oci/manifest.ts';
import type { Access } from '../upstream/authorizer.ts';
import type { RegistryClient } from '../upstream/registry-client.ts';

/**
 * Manifests, indexes and image configs: in memory, in the content store, at the registry they come
 * from. The content store need not make them durable: what is damaged there is told by its digest
 * and fetched or made again.
 */
export interface Documents {
  /**
   * A manifest or index. The caller has made sure that its asker may see the repository: what is kept here
   * is handed out once that repository itself has shown that it has it.
   */
  manifest(access: Access, digest: Digest, mediaType: string): Promise<Document>;
  /** The manifest, but only when it is here already. */
  local(digest: Digest, mediaType: string): Promise<Document | undefined>;
  /** Every manifest, index and image config below a root, by digest; what an index lacks is left out. */
  collect(access: Access, root: Document): Promise<Map<Digest, Document>>;
  /** Keeps a document that was made here. */
  keep(document: Document): Promise<void>;
  /** Keeps a document that the registry of the access has answered. */
  receive(access: Access, document: Document): Promise<void>;
  /** Makes sure that a document which a new request needs is on the disk, and that no sweep takes it. */
  renew(document: Document): Promise<void>;
  /** The config of one image. */
  config(access: Access, descriptor: Descriptor): Promise<Document>;
}

const memoryBytes = 64 * 1024 * 1024;
const deepestIndex = 4;

/**
 * @param renewMs how long a document counts as just used; well below the grace of the sweep
 */
export function createDocuments(
  content: ContentStore,
  registry: RegistryClient,
  renewMs: number,
): Documents {
  const renewedAt = boundedCache<Digest, number>(20_000);
  const memory = new LRUCache<Digest, Document>({
    maxSize: memoryBytes,
    sizeCalculation: document => document.bytes.length + 200,
  });
  const running = new Map<string, Promise<Document>>();
  // A repository is the authority for what it has; in another one, also of the same registry, somebody
  // could name any digest that they know of.
  const shown = boundedCache<string, true>(100_000);

  const local = async (digest: Digest, mediaType: string): Promise<Document | undefined> => {
    const kept = memory.get(digest);
    if (kept) return kept;
    const bytes = await content.read(digest);
    if (!bytes) return undefined;
    const document = { bytes, mediaType, digest };
    memory.set(digest, document);
    return document;
  };

  const keep = async (document: Document): Promise<void> => {
    memory.set(document.digest, document);
    await content.write(document.digest, document.bytes);
    renewedAt.set(document.digest, Date.now());
  };

  const renew = async (document: Document): Promise<void> => {
    const { digest } = document;
    const now = Date.now();
    if (now - (renewedAt.get(digest) ?? 0) < renewMs) return;
    if (content.claim(digest)) renewedAt.set(digest, now);
    else await keep(document);
  };

  const receive = async (access: Access, document: Document): Promise<void> => {
    await keep(document);
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
    const pending = running.get(key);
    if (pending) return pending;
    const fetched = (async () => {
      const document = await fetch();
      await receive(access, document);
      return document;
    })().finally(() => running.delete(key));
    running.set(key, fetched);
    return fetched;
  };

  const manifest = (access: Access, digest: Digest, mediaType: string) =>
    load(access, { digest, mediaType }, () => registry.getManifest(access, digest));
  const config = (access: Access, descriptor: Descriptor) =>
    load(access, descriptor, () =>
      registry.getBlob(access, descriptor.digest, descriptor.mediaType),
    );

  const collectInto = async (
    found: Map<Digest, Document>,
    access: Access,
    document: Document,
    depth: number,
  ): Promise<void> => {
    found.set(document.digest, document);
    const parsed = parseManifest(document);
    if (parsed.kind === 'manifest' && isImage(parsed)) {
      found.set(parsed.config.digest, await config(access, parsed.config));
    }
    if (parsed.kind !== 'index' || depth >= deepestIndex) return;
    await Promise.all(
      parsed.manifests.filter(mayBeImage).map(async entry => {
        const child = await unlessMissing(manifest(access, entry.digest, entry.mediaType));
        if (child) await collectInto(found, access, child, depth + 1);
      }),
    );
  };

  return {
    manifest,
    config,
    local,
    keep,
    receive,
    renew,
    async collect(access, root) {
      const found = new Map<Digest, Document>();
      await collectInto(found, access, root, 0);
      return found;
    },
  };
}

function placeOf({ registry, repository }: Access, digest: Digest): string {
  return `${registry}/${repository}@${digest}`;
}

// An index may name images that were never pushed or were deleted: it is sparse, not broken.
async function unlessMissing(document: Promise<Document>): Promise<Document | undefined> {
  try {
    return await document;
  } catch (error) {
    if (error instanceof Fault && error.kind === 'manifest-unknown') return undefined;
    throw error;
  }
}
