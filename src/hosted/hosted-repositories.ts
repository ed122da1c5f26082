import type { Announce } from '../messages/index.ts';
import type { ContentStore } from '../storage/content/index.ts';
import type {
  HostedLimits,
  HostedStore,
  PullStore,
  UploadRow,
  UploadStore,
} from '../storage/rows/index.ts';
import type { PushClient, RegistryClient } from '../upstream/index.ts';
import type { AccountCheck } from './accounts/account-check.ts';
import type { Accounts } from './accounts/accounts.ts';
import {
  type Authenticator,
  createAuthenticator,
  createRegistryTokens,
  type RegistryTokens,
} from './authenticator.ts';
import { createHostedBlobs, type HostedBlobs } from './blobs.ts';
import { createHostedListings, type HostedListings } from './listings/listings.ts';
import { createHostedManifests, type HostedManifests } from './manifests.ts';
import { createOwnPusher, createOwnRegistry } from './own-registry.ts';
import { type ContextLimits, createQuota } from './uploads/quota.ts';
import { createUploads, type Uploads } from './uploads/uploads.ts';

/** The repositories that this service hosts itself. */
export interface Hosted {
  readonly authenticator: Authenticator;
  readonly tokens: RegistryTokens;
  readonly manifests: HostedManifests;
  readonly blobs: HostedBlobs;
  readonly listings: HostedListings;
  readonly uploads: Uploads;
  /** The same repositories behind the interface of other registries. */
  readonly registry: RegistryClient;
  readonly pusher: PushClient;
}

export interface HostedOptions {
  readonly content: ContentStore;
  readonly store: HostedStore;
  readonly pulls: Pick<PullStore, 'remove'>;
  readonly uploads: UploadStore;
  /** The uploads of the former server that clients can continue. */
  readonly keptUploads: readonly UploadRow[];
  /** Returns false while another server may change the rows. */
  readonly isCurrent: () => boolean;
  readonly accounts: Accounts;
  readonly accountCheck: Pick<AccountCheck, 'find'>;
  readonly hasAccountFiles: boolean;
  /** Patterns of the repositories that callers without a login may pull. */
  readonly anonymous: readonly string[];
  readonly limits: HostedLimits;
  readonly contexts: ContextLimits;
  readonly signingKey: Uint8Array;
  /** Prefix of served names after the host, `ct/`. */
  readonly servedPrefix: string;
  /** Host in the names of hosted images. */
  readonly host: string;
  /** Returns the messages about pushes and deletions. Default: none. */
  readonly announce?: Announce;
}

export function createHosted(options: HostedOptions): Hosted {
  const { content, store, pulls } = options;
  const quota = createQuota(store, options.limits, options.contexts);
  const tokens = createRegistryTokens(options.signingKey, options.host);
  const authenticator = createAuthenticator({ ...options, tokens });
  const { announce } = options;
  const manifests = createHostedManifests({
    content,
    store,
    pulls,
    quota,
    ...(announce ? { announce } : {}),
  });
  const blobs = createHostedBlobs({ content, store, quota });
  const listings = createHostedListings(store);
  const uploads = createUploads({
    content,
    blobs,
    quota,
    store: options.uploads,
    kept: options.keptUploads,
    isCurrent: options.isCurrent,
  });
  const { servedPrefix } = options;
  const registry = createOwnRegistry({
    content,
    authenticator,
    manifests,
    blobs,
    listings,
    servedPrefix,
  });
  const pusher = createOwnPusher({ content, authenticator, manifests, blobs, quota });
  return { authenticator, tokens, manifests, blobs, listings, uploads, registry, pusher };
}
