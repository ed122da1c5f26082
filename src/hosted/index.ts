/** The built-in registry. */

export { type AccountCheck, createAccountCheck } from './accounts/account-check.ts';
export {
  type Authenticator,
  allowsPull,
  type RegistryTokens,
  type RepositoryAccess,
  tokenName,
} from './authenticator.ts';
export type { HostedBlobs } from './blobs.ts';
export { createHosted } from './hosted-repositories.ts';
export { type HostedListings, type Listing, pageSize } from './listings/listings.ts';
export {
  listRepositories,
  listUntagged,
  type RepositoryList,
  type RepositorySources,
  type RepositoryView,
  recentDays,
  type ShownManifest,
  type ShownReferrer,
  type ShownTag,
  type UntaggedImage,
  type UntaggedPage,
  unknownRepository,
  viewManifest,
  viewRepository,
} from './listings/repository-view.ts';
export type { HostedManifests } from './manifests.ts';
export { listingHeaders, withOwnLogin, withOwnPusher, withOwnRegistry } from './own-registry.ts';
export type { ChunkRange, Upload, UploadBody } from './uploads/open-uploads.ts';
export { purgeContexts } from './uploads/purge-contexts.ts';
export type { Uploads } from './uploads/uploads.ts';
