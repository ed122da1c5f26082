import { Fault } from '../foundation/fault.ts';
import { type Digest, isDigest, parseDigest, splitDigest } from '../oci/digest.ts';
import { type ByteSource, copiesOf } from '../storage/content/byte-source.ts';
import type { ContentStore } from '../storage/content/index.ts';
import type {
  Access,
  CheckLogin,
  PushAccess,
  PushClient,
  PushedBlob,
  RegistryClient,
} from '../upstream/index.ts';
import type { Authenticator } from './authenticator.ts';
import type { HostedBlobs } from './blobs.ts';
import type { HostedListings, Listing } from './listings/listings.ts';
import type { HostedManifests } from './manifests.ts';
import { createBatches } from './uploads/open-uploads.ts';
import type { Quota } from './uploads/quota.ts';

interface OwnRegistryDeps {
  readonly content: ContentStore;
  readonly authenticator: Authenticator;
  readonly manifests: HostedManifests;
  readonly blobs: HostedBlobs;
  readonly listings: HostedListings;
  /** Prefix of served names, which are not hosted repositories. */
  readonly servedPrefix: string;
}

/**
 * Offers the hosted repositories as one registry among others, without the network. As with any other registry, the
 * credentials of the access decide what it may see.
 */
export function createOwnRegistry(deps: OwnRegistryDeps): RegistryClient {
  const { content, authenticator, manifests, blobs, listings } = deps;

  const require = async (access: Access): Promise<void> => {
    if (access.isService) return;
    const { registry, repository, credentials } = access;
    if (repository.startsWith(deps.servedPrefix)) {
      throw new Fault(
        'bad-request',
        'This is the served name of a container request: use the name of the image in that request',
        { phase: 'request' },
      );
    }
    const rights = await authenticator.withCredentials(credentials);
    if (rights?.(repository).includes('pull')) return;
    throw new Fault(
      'denied',
      `Cannot pull ${registry}/${repository} ${credentials ? 'with your rights' : 'without credentials'}: log in with an account that may pull it, or ask the operator to open the repository`,
      { phase: 'credentials' },
    );
  };

  return {
    async headManifest(access, reference) {
      await require(access);
      return manifests.head(access.repository, reference);
    },

    async getManifest(access, reference) {
      await require(access);
      return manifests.get(access.repository, reference);
    },

    async getBlob(access, digest, mediaType) {
      await require(access);
      await blobs.size(access.repository, digest);
      const bytes = await content.read(digest);
      if (!bytes) throw damagedBlob(digest);
      return { bytes, mediaType, digest };
    },

    async openBlob(access, digest, { offset = 0, last }) {
      await require(access);
      const size = await blobs.size(access.repository, digest);
      const end = Math.min(last ?? size - 1, size - 1);
      return {
        kind: 'bytes',
        offset,
        total: size,
        response: {
          status: 200,
          headers: new Map(),
          contentLength: size,
          body: content.open(digest, offset, end),
        },
      };
    },

    async headBlob(access, digest) {
      await require(access);
      return blobs.size(access.repository, digest);
    },

    async getJson(access, path, query) {
      await require(access);
      const { repository } = access;
      const parameters = new URLSearchParams(query);
      const listing =
        path === 'tags/list'
          ? await listings.tags(repository, parameters)
          : await listings.referrers(
              repository,
              parseDigest(path.slice('referrers/'.length)),
              parameters,
            );
      return {
        status: 200,
        headers: listingHeaders(listing, `/v2/${repository}/${path}`),
        body: Buffer.from(JSON.stringify(listing.body)),
      };
    },
  };
}

/** Returns the headers of a listing that was requested under the path. */
export function listingHeaders(
  { contentType, next, filtered }: Listing,
  path: string,
): Map<string, string> {
  const headers = new Map([['content-type', contentType]]);
  if (next !== undefined) headers.set('link', `<${path}?${next}>; rel="next"`);
  if (filtered !== undefined) headers.set('oci-filters-applied', filtered);
  return headers;
}

/** Asks the hosted repositories for names under the server's own host, and other registries for all other names. */
export function withOwnRegistry(
  ownHost: string,
  own: RegistryClient,
  others: RegistryClient,
): RegistryClient {
  const choose = ({ registry }: Access) => (registry === ownHost ? own : others);
  return {
    headManifest: (access, ...rest) => choose(access).headManifest(access, ...rest),
    getManifest: (access, ...rest) => choose(access).getManifest(access, ...rest),
    getBlob: (access, ...rest) => choose(access).getBlob(access, ...rest),
    openBlob: (access, ...rest) => choose(access).openBlob(access, ...rest),
    headBlob: (access, ...rest) => choose(access).headBlob(access, ...rest),
    getJson: (access, ...rest) => choose(access).getJson(access, ...rest),
  };
}

function damagedBlob(digest: Digest): Fault {
  return new Fault(
    'blob-unknown',
    `${digest} is damaged or missing on the disk: push it again, and run 'sluice verify'`,
    { phase: 'store' },
  );
}

interface OwnPusherDeps {
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
      `Cannot push to ${registry}/${repository} ${credentials ? 'with the credentials of this request' : 'without credentials'}: name another repository, or use credentials that may push to it, such as those of a workspace (--workspace)`,
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
      // A server that was killed may have left bytes that the rows do not count as here: claiming them enters them.
      const isWhole = isKept && (await content.size(digest)) === size;
      const isHere = isWhole && (await content.claim(digest));
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

/**
 * Checks the accounts for a login to the server's own host, and asks other registries. Over the network, the server's
 * registry would see all users as one client, this server.
 */
export function withOwnLogin(
  ownHost: string,
  authenticator: Authenticator,
  others: CheckLogin,
): CheckLogin {
  return async (registry, credentials) => {
    if (registry !== ownHost) return others(registry, credentials);
    // Without accounts, every login succeeds, as it does at the server's `/v2/`.
    return (
      !authenticator.hasAccounts || (await authenticator.withCredentials(credentials)) !== undefined
    );
  };
}
