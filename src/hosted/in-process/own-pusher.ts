import { Fault } from '../../foundation/fault.ts';
import { isDigest, splitDigest } from '../../oci/digest.ts';
import { type ByteSource, copiesOf } from '../../storage/content/byte-source.ts';
import type { ContentStore } from '../../storage/content/index.ts';
import type { PushAccess, PushClient, PushedBlob } from '../../upstream/index.ts';
import type { Authenticator } from '../authenticator.ts';
import type { HostedBlobs } from '../blobs.ts';
import type { HostedManifests } from '../manifests.ts';
import { createBatches } from '../uploads/batches.ts';
import type { Quota } from '../uploads/quota.ts';

export interface OwnPusherDeps {
  readonly content: ContentStore;
  readonly authenticator: Authenticator;
  readonly manifests: HostedManifests;
  readonly blobs: HostedBlobs;
  readonly quota: Quota;
}

/** Pushes to the hosted repositories without the network. The credentials decide, as with any registry. */
export function createOwnPusher(deps: OwnPusherDeps): PushClient {
  const { content, authenticator, manifests, blobs, quota } = deps;

  const require = async ({ isService, credentials, registry, repository }: PushAccess) => {
    if (isService) return;
    const rights = await authenticator.withCredentials(credentials);
    if (rights?.(repository).includes('push')) return;
    throw new Fault(
      'denied',
      `Cannot push to ${registry}/${repository} ${credentials ? 'with the credentials of this request' : 'without credentials'}: name another repository, or use credentials that may push to it`,
      { phase: 'credentials' },
    );
  };

  const has = async (repository: string, { digest, size }: PushedBlob) =>
    (await blobs.size(repository, digest).catch(() => undefined)) === size;

  const receive = async ({ digest, open }: PushedBlob): Promise<void> => {
    const file = await content.ingest(splitDigest(digest).algorithm);
    let source: ByteSource | undefined;
    try {
      const batches = createBatches(bytes => file.write(...bytes));
      source = await open();
      // Batches keep the bytes.
      for await (const bytes of copiesOf(source)) await batches.add(bytes);
      await batches.flush();
      if (file.digest() !== digest) {
        throw new Fault(
          'upstream',
          `The content of ${digest} has another digest: it changed while it was pushed. Try again`,
          { phase: 'push' },
        );
      }
      await file.commit();
    } finally {
      source?.destroy();
      await file.abort();
    }
  };

  return {
    check: require,

    async putBlob(access, blob) {
      await require(access);
      const { repository } = access;
      const { digest, size, isKept } = blob;
      if (await has(repository, blob)) return 'there';
      await quota.admit(repository, size);
      const isHere = isKept && (await content.size(digest)) === size;
      if (!isHere) await receive(blob);
      await blobs.link(repository, digest, size);
      return isHere ? 'mounted' : 'sent';
    },

    async putManifest(access, reference, { bytes, mediaType, digest }) {
      await require(access);
      const tags = isDigest(reference) ? [] : [reference];
      const pushed = { bytes, contentType: mediaType, digest, tags };
      const { subject } = await manifests.put(access.repository, pushed);
      return { isReferrer: subject !== undefined };
    },
  };
}

/**
 * Pushes to the hosted repositories for names under the server's own host, and to other registries for all other
 * names.
 */
export function withOwnPusher(ownHost: string, own: PushClient, others: PushClient): PushClient {
  const choose = ({ registry }: PushAccess) => (registry === ownHost ? own : others);
  return {
    check: (access, ...rest) => choose(access).check(access, ...rest),
    putBlob: (access, ...rest) => choose(access).putBlob(access, ...rest),
    putManifest: (access, ...rest) => choose(access).putManifest(access, ...rest),
  };
}
