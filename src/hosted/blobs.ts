import { Fault } from '../foundation/fault.ts';
import type { Digest } from '../oci/digest.ts';
import type { ContentStore } from '../storage/content/index.ts';
import type { HostedStore } from '../storage/rows/index.ts';
import type { Rights } from './rights.ts';
import type { Quota } from './uploads/quota.ts';

/** The blobs of hosted repositories. Content is stored once, however many repositories have it. */
export interface HostedBlobs {
  /**
   * Returns the size in bytes. Throws a {@link Fault} (404) when the repository does not have the blob, or when its
   * content is missing on the disk: a client then pushes it again.
   */
  size(repository: string, digest: Digest): Promise<number>;
  /**
   * Makes content of the content store a blob of the repository. Throws when the content does not exist or the quota
   * is used up.
   */
  link(repository: string, digest: Digest, size: number): Promise<void>;
  /**
   * Takes a blob over from another repository that the caller may pull from, or from any of them when none is named.
   * False when no such blob exists.
   */
  mount(
    repository: string,
    digest: Digest,
    from: string | undefined,
    rights: Rights,
  ): Promise<boolean>;
  /** Throws when the blob does not exist (404), or when a manifest of the repository needs it (409). */
  remove(repository: string, digest: Digest, signal?: AbortSignal): Promise<void>;
}

export interface HostedBlobsDeps {
  readonly content: ContentStore;
  readonly store: HostedStore;
  readonly quota: Quota;
}

// The search would take long for a blob that all repositories have. Such a blob is usually small, and the client can
// push it instead.
const mostHolders = 200;

export function createHostedBlobs({ content, store, quota }: HostedBlobsDeps): HostedBlobs {
  const link = async (repository: string, digest: Digest, size: number): Promise<void> => {
    const push = { repository, digest, size, at: Date.now(), limits: quota.limitsOf(repository) };
    const refusal = await store.putBlob(push);
    if (refusal === 'gone') throw gone(digest);
    if (refusal) throw quota.refusal(repository, refusal);
  };

  return {
    async size(repository, digest) {
      const size = await store.blobSize(repository, digest);
      if (size === undefined || (await content.size(digest)) !== size) {
        throw unknown(repository, digest);
      }
      return size;
    },

    link,

    async mount(repository, digest, from, rights) {
      const holders = from === undefined ? await store.holdersOf(digest, mostHolders) : [from];
      for (const holder of holders) {
        if (!rights(holder).includes('pull')) continue;
        const size = await store.blobSize(holder, digest);
        if (size === undefined || !(await content.claim(digest))) continue;
        await link(repository, digest, size);
        return true;
      }
      return false;
    },

    async remove(repository, digest, signal) {
      const removal = await store.removeBlob(repository, digest, { signal });
      if (removal.kind === 'unknown') throw unknown(repository, digest);
      if (removal.kind === 'needed') {
        throw new Fault(
          'in-use',
          `The blob is a part of the manifest ${removal.manifest}: delete that manifest first`,
          { phase: 'request' },
        );
      }
    },
  };
}

function unknown(repository: string, digest: Digest): Fault {
  return new Fault('blob-unknown', `${repository} has no blob ${digest}`, { phase: 'request' });
}

/** A build repeats its push after an error of the store. */
export function gone(digest: Digest): Fault {
  return new Fault('unavailable', `${digest} was removed while it was pushed: push it again`, {
    phase: 'store',
    retryAfterSeconds: 1,
  });
}
