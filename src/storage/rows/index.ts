/** The rows: how they are opened, and all their stores. */

export type { UsedContent } from './figures/content-use-rows.ts';
export {
  type DayCountStore,
  type LabelCount,
  mostNames,
  otherNames,
} from './figures/day-count-rows.ts';
export type { PullStore, PullSubject, RecentPulls } from './figures/pull-rows.ts';
export type { QueueHour, QueueStore } from './figures/queue-rows.ts';
export type { ContextRow, ContextStore } from './hosted/context-rows.ts';
export {
  firstPlace,
  type HostedContent,
  type HostedImage,
  type HostedLimit,
  type HostedLimits,
  type HostedManifest,
  type HostedPlace,
  type HostedRow,
  type HostedStore,
  type HostedSums,
  type ManifestPushed,
  type NeededPart,
} from './hosted/hosted-store.ts';
export type { UploadRow, UploadStore } from './hosted/upload-rows.ts';
export { type AnonymousShare, createAnonymousShare } from './images/anonymous-share.ts';
export type { AnonymousUseStore } from './images/anonymous-use.ts';
export type { BuildListStore, ListedBuild } from './images/build-list-rows.ts';
export {
  type BuildOutcome,
  type BuildRow,
  type BuildStore,
  type ExpiredBuild,
  isNews,
  type UnfinishedBuild,
} from './images/build-rows.ts';
export type { CachedBlobStore } from './images/cached-blob-rows.ts';
export type { ContentRow, ContentRowStore } from './images/content-rows.ts';
export type { FetchedLayerStore } from './images/fetched-layer-rows.ts';
export type { PackageLayerRow, PackageLayerStore } from './images/package-layer-rows.ts';
export type { EndingRequest, RequestPlace, RequestStore } from './images/request-rows.ts';
export type { Metric, UsageStore } from './images/usage-rows.ts';
export type { VerifiedLayerStore } from './images/verified-layer-rows.ts';
export type { AccessTokenRow, AccessTokenStore, HeldTokenRow } from './people/access-token-rows.ts';
export { type AuditEntry, type AuditKind, type AuditLog, auditKinds } from './people/audit-log.ts';
export type {
  CredentialOwner,
  CredentialRow,
  CredentialStore,
  ListedCredentialRow,
} from './people/credential-rows.ts';
export type { Listed, NotAdded, Page } from './people/page.ts';
export type { PairingRow, PairingStore } from './people/pairing-rows.ts';
export type { SessionLimits, SessionStore } from './people/session-rows.ts';
export type { TokenPairStore } from './people/token-pair-rows.ts';
export type { UserRow, UserStore } from './people/user-rows.ts';
export type { WorkspaceRow, WorkspaceStore } from './people/workspace-rows.ts';
export { openPostgresRows, openRows, type Rows } from './rows.ts';
export type { Resealed, SealedRow, SealedRowStore } from './secrets/sealed-rows.ts';
export type { SecretBox } from './secrets/secret-box.ts';
export {
  hasPreviousKey,
  openSecretBox,
  removePreviousKey,
  renewKey,
} from './secrets/secret-keys.ts';
export { eachRow } from './small-steps.ts';
