import { LRUCache } from 'lru-cache';
import { boundedCache } from '../foundation/bounded-cache.ts';
import { isUnwritable } from '../foundation/fault.ts';
import { SingleFlight } from '../foundation/single-flight.ts';
import type { Digest } from '../oci/digest.ts';
import type { Descriptor, Document } from '../oci/index.ts';
import type { ContentStore } from '../storage/content/index.ts';
import type { AnonymousShare } from '../storage/rows/index.ts';
import type { Access, RegistryClient } from '../upstream/index.ts';
import { collectDocuments, type DocumentSource } from './collect.ts';

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
    const bytes = await content.read(digest);
    if (!bytes) return undefined;
    const document = { bytes, mediaType, digest };
    memory.set(digest, document);
    return document;
  };

  const keep = async (document: Document, { network }: Pick<Access, 'network'>): Promise<void> => {
    const { digest, bytes } = document;
    const claim = network === undefined ? undefined : content.claim(digest);
    claim?.catch(() => {});
    using room = await share.take(network, bytes.length);
    const isNew = (await claim) === false;
    memory.set(digest, document);
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
