/** The rows: how they are opened, and all their stores. */

export type { ContentRow, ContentRowStore, UsedContent } from './content-rows.ts';
export {
  type DayCountStore,
  type LabelCount,
  mostNames,
  otherNames,
  type QueueHour,
  type QueueStore,
  type StoredCount,
} from './figures/count-rows.ts';
export type {
  Metric,
  PullStore,
  PullSubject,
  RecentPulls,
  UsageStore,
} from './figures/usage-rows.ts';
export type { ContextRow, ContextStore, UploadRow, UploadStore } from './hosted/hosted-rows.ts';
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
export {
  type AnonymousShare,
  type AnonymousUseStore,
  createAnonymousShare,
} from './images/anonymous-share.ts';
export {
  type BuildListStore,
  type BuildOutcome,
  type BuildRow,
  type BuildStore,
  type ExpiredBuild,
  isNews,
  type ListedBuild,
  type UnfinishedBuild,
} from './images/build-rows.ts';
export type { CachedBlobStore } from './images/cached-blob-rows.ts';
export type {
  FetchedLayerStore,
  PackageLayerRow,
  PackageLayerStore,
  VerifiedLayerStore,
} from './images/layer-rows.ts';
export type {
  NeedsRow,
  RequestPlace,
  RequestStore,
  RequestTimes,
} from './images/request-rows.ts';
export type { RunRow, RunStore } from './images/run-rows.ts';
export type { ScanRow, ScanStore } from './images/scan-rows.ts';
export type {
  ListedMessage,
  MessageRow,
  MessageStore,
  NewMessage,
} from './messages/message-rows.ts';
export { type AuditEntry, type AuditKind, type AuditLog, auditKinds } from './people/audit-log.ts';
export type {
  CredentialOwner,
  CredentialRow,
  CredentialStore,
  ListedCredentialRow,
} from './people/credential-rows.ts';
export type {
  AccessTokenRow,
  AccessTokenStore,
  HeldTokenRow,
  SessionLimits,
  SessionStore,
} from './people/login-rows.ts';
export type { PairingRow, PairingStore, TokenPairStore } from './people/platform-rows.ts';
export type {
  Listed,
  NotAdded,
  Page,
  UserRow,
  UserStore,
  WorkspaceRow,
  WorkspaceStore,
} from './people/user-rows.ts';
export type { ReadReplicaUse } from './postgres/read-replica.ts';
export { openPostgresRows, openReadRows, openRows, type Rows } from './rows.ts';
export {
  hasPreviousKey,
  openSecretBox,
  type Resealed,
  removePreviousKey,
  renewKey,
  type SealedRow,
  type SealedRowStore,
  type SecretBox,
} from './secret-box.ts';
export { eachRow } from './small-steps.ts';
