/** The built-in registry. */

export { type AccountCheck, createAccountCheck } from './accounts/account-check.ts';
export { type Authenticator, tokenName } from './authenticator.ts';
export type { HostedBlobs } from './blobs.ts';
export { createHosted } from './hosted-repositories.ts';
export { withOwnLogin } from './in-process/own-login.ts';
export { withOwnPusher } from './in-process/own-pusher.ts';
export { listingHeaders, withOwnRegistry } from './in-process/own-registry.ts';
export type { HostedListings, Listing } from './listings/listings.ts';
export { pageSize } from './listings/page-size.ts';
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
export { allowsPull, type RegistryTokens, type RepositoryAccess } from './registry-tokens.ts';
export { purgeContexts } from './uploads/purge-contexts.ts';
export type { ChunkRange, Upload, UploadBody } from './uploads/upload.ts';
export type { Uploads } from './uploads/uploads.ts';
