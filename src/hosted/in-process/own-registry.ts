import { Fault } from '../../foundation/fault.ts';
import { type Digest, parseDigest } from '../../oci/digest.ts';
import type { ContentStore } from '../../storage/content/index.ts';
import type { Access, RegistryClient } from '../../upstream/index.ts';
import type { Authenticator } from '../authenticator.ts';
import type { HostedBlobs } from '../blobs.ts';
import type { HostedListings, Listing } from '../listings/listings.ts';
import type { HostedManifests } from '../manifests.ts';

export interface OwnRegistryDeps {
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
      if (!bytes) throw damaged(digest);
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

function damaged(digest: Digest): Fault {
  return new Fault(
    'blob-unknown',
    `${digest} is damaged or missing on the disk: push it again, and run 'sluice verify'`,
    { phase: 'store' },
  );
}
