import { pauseTurn } from '../../foundation/pause-turn.ts';
import { type RepositorySources, type ShownManifest, viewManifest } from '../../hosted/index.ts';
import { isDigest } from '../../oci/digest.ts';

/** What a deletion would do. */
export interface Deletion {
  readonly repository: string;
  /** The tag or digest to delete. */
  readonly reference: string;
  readonly isTag: boolean;
  readonly manifest: ShownManifest;
  /** The tags of the manifest, up to {@link mostTags}. */
  readonly tags: readonly string[];
  readonly hasMoreTags: boolean;
  /** Bytes on the disk that only this manifest needs. */
  readonly freedBytes: number;
}

const mostTags = 50;

/** Returns what the deletion of a tag or of a manifest would do. Throws a `Fault` (404). */
export async function viewDeletion(
  repository: string,
  reference: string,
  sources: RepositorySources,
): Promise<Deletion> {
  const { store, manifests } = sources;
  const { digest, size } = await manifests.head(repository, reference);
  const tags = await store.tagsOf(repository, digest, mostTags + 1);
  let freedBytes = size;
  for (const part of await store.soleParts(repository, digest)) {
    await pauseTurn();
    // The images of an index stay: their sizes are not those of blobs.
    const bytes = await store.blobSize(repository, part);
    const isShared = (await store.holdersOf(part, 2)).length > 1;
    if (bytes !== undefined && !isShared) freedBytes += bytes;
  }
  return {
    repository,
    reference,
    isTag: !isDigest(reference),
    freedBytes,
    manifest: await viewManifest(repository, digest, sources),
    tags: tags.slice(0, mostTags),
    hasMoreTags: tags.length > mostTags,
  };
}
