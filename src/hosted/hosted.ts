import type { ContentStore } from '../content/content-store.ts';
import type { CachedBlobStore } from '../store/cached-blobs.ts';
import type { HostedStore } from '../store/hosted.ts';
import type { PushClient } from '../upstream/push-client.ts';
import type { RegistryClient } from '../upstream/registry-client.ts';
import type { AccountCheck } from './account-check.ts';
import type { Accounts } from './accounts.ts';
import { createHostedBlobs, type HostedBlobs } from './blobs.ts';
import { createKeeper, type Keeper } from './keeper.ts';
import { createHostedListings, type HostedListings } from './listings.ts';
import { createHostedManifests, type HostedManifests } from './manifests.ts';
import { createOwnPusher } from './own-pusher.ts';
import { createOwnRegistry } from './own-registry.ts';
import { createQuota, type HostedLimits } from './quota.ts';
import { createRegistryTokens, type RegistryTokens } from './registry-tokens.ts';
import { createUploads, type Uploads } from './uploads.ts';

/** The repositories that this service hosts itself. */
export interface Hosted {
  readonly keeper: Keeper;
  readonly tokens: RegistryTokens;
  readonly manifests: HostedManifests;
  readonly blobs: HostedBlobs;
  readonly listings: HostedListings;
  readonly uploads: Uploads;
  /** The same as other registries are seen. */
  readonly registry: RegistryClient;
  readonly pusher: PushClient;
}

export interface HostedOptions {
  readonly content: ContentStore;
  readonly store: HostedStore;
  readonly cachedBlobs: CachedBlobStore;
  readonly accounts: Accounts;
  readonly accountCheck: Pick<AccountCheck, 'find'>;
  readonly hasAccountFiles: boolean;
  /** Patterns of what anybody may pull. */
  readonly anonymous: readonly string[];
  readonly limits: HostedLimits;
  readonly signingKey: Uint8Array;
  /** What served names begin with behind the host, `ct/`. */
  readonly servedPrefix: string;
  /** The host that names of hosted images begin with. */
  readonly host: string;
}

export function createHosted(options: HostedOptions): Hosted {
  const { content, store, cachedBlobs } = options;
  const quota = createQuota(store, options.limits);
  const tokens = createRegistryTokens(options.signingKey, options.host);
  const keeper = createKeeper({ ...options, tokens });
  const manifests = createHostedManifests({ content, store, quota });
  const blobs = createHostedBlobs({ content, store, cachedBlobs, quota });
  const listings = createHostedListings(store);
  const uploads = createUploads({ content, blobs, quota });
  const { servedPrefix } = options;
  const registry = createOwnRegistry({
    ...{ content, keeper, manifests, blobs, listings },
    servedPrefix,
  });
  const pusher = createOwnPusher({ content, keeper, manifests, blobs, quota });
  return { keeper, tokens, manifests, blobs, listings, uploads, registry, pusher };
}
