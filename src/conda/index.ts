/** Conda environments as layers: channels, search, solver, packages, layers, documents. */

export { type BaseLibc, createBaseLibc } from './base-libc.ts';
export {
  type BilledWheel,
  type DocumentedSolution,
  linkOrder,
  type PlatformSolution,
} from './bills/bill.ts';
export {
  createDescribedLayers,
  type DescribedLayers,
  type DescribedParts,
} from './bills/described-layers.ts';
export { type DocumentName, documentForms } from './bills/document-form.ts';
export { documentsOf, writeDocument } from './bills/write-documents.ts';
export { type ChannelAccess, createChannelAccess } from './channels/channel-access.ts';
export { ChannelFault } from './channels/channel-fault.ts';
export {
  type BuilderChannels,
  type ChannelCredentials,
  type ChannelSettings,
  createBuilderChannels,
  hostsOfChannels,
} from './channels/channel-settings.ts';
export type { CondaPackage } from './conda-package.ts';
export { createArchiveFetch, type FetchArchive } from './layers/archive-fetch.ts';
export { createPackageLayers } from './layers/create-package-layers.ts';
export { createBaseForms, type ReformBaseLayer } from './layers/forms/base-forms.ts';
export { createLayerForms, type ReformLayers } from './layers/forms/layer-forms.ts';
export { createKeptLayers, type KeptLayers } from './layers/kept-layers.ts';
export { createKeptSteps, type KeptSteps, type MadeStep } from './layers/kept-steps.ts';
export { createArchiveWork, type PackageProgress } from './layers/making/archive-work.ts';
export {
  type AnyOrder,
  createLayerThreads,
  type InstallOrder,
  type UnpackLimits,
} from './layers/making/layer-threads.ts';
export {
  type AddedPackages,
  type CondaEnvironmentFiles,
  type EnvironmentLayers,
  environmentPrefix,
  type LayeredPackage,
  type LayerOptions,
  type LayerProgress,
  type PackageLayers,
  type PartProgress,
} from './layers/package-layers.ts';
export { type ReadLock, readLock } from './locks/read-lock.ts';
export type { ReportRepodata } from './repodata/repodata-progress.ts';
export { createRepodataStore } from './repodata/repodata-store.ts';
export { createShardStore } from './repodata/shard-store.ts';
export { createChannelSummaries } from './search/channel-summaries.ts';
export {
  createPackageSearch,
  mostCounted,
  type PackageSearch,
  type SearchFailures,
  type SearchResult,
  type VersionsResult,
} from './search/package-search.ts';
export {
  type CondaSolver,
  type SolveOptions,
  type VirtualPackage,
  virtualPackages,
} from './solving/conda-solver.ts';
export { createCondaSolver } from './solving/create-conda-solver.ts';
export { isUnsolvedFor } from './solving/explanation.ts';
