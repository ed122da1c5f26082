import type { Digest } from '../../oci/digest.ts';
import type { ContentStore } from '../../storage/content/index.ts';
import type { Redirects, RelayedBlob } from './relayed-blobs.ts';

/** A blob that another server of the site sends to a client, in place of this one. */
export type BlobOrder =
  /** From its registry. */
  | { readonly kind: 'relayed'; readonly blob: RelayedBlob; readonly redirects: Redirects }
  /** From the content store that all servers of the site share. */
  | {
      readonly kind: 'stored';
      readonly digest: Digest;
      /** Bytes. */
      readonly size: number;
      /** The right to it may end while it is sent. */
      readonly isWatched: boolean;
    };

// A smaller blob takes less time than another request to the store.
const fewestBytes = 256 * 1024;

/**
 * Returns the order of a blob of the content store; undefined when this server answers itself: for a small blob, and
 * for one that the client reads from the store.
 */
export function orderStored(
  content: Pick<ContentStore, 'hasLinks'>,
  digest: Digest,
  size: number,
  isWatched: boolean,
): BlobOrder | undefined {
  if (content.hasLinks || size < fewestBytes) return undefined;
  return { kind: 'stored', digest, size, isWatched };
}
