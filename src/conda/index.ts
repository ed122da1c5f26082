/** Conda environments as layers: channels, search, solver, packages, layers, documents. */

export { type BaseLibc, createBaseLibc } from './base/base-libc.ts';
export { type DocumentName, documentForms } from './bills/document-form.ts';
export type { DocumentedSolution, PlatformSolution } from './bills/documented-solution.ts';
export { linkOrder } from './bills/link-order.ts';
export { documentsOf, writeDocument } from './bills/write-documents.ts';
export { type BuilderChannels, createBuilderChannels } from './channels/builder-channels.ts';
export type { ChannelAccess } from './channels/channel-access.ts';
export { ChannelFault } from './channels/channel-fault.ts';
export {
  type ChannelCredentials,
  type ChannelSettings,
  hostsOfChannels,
} from './channels/channel-settings.ts';
export { createChannelAccess } from './channels/create-channel-access.ts';
export type { CondaPackage } from './conda-package.ts';
export { createPackageLayers } from './layers/create-package-layers.ts';
export { createArchiveFetch } from './layers/fetching/archive-fetch.ts';
export { createKeptLayers } from './layers/kept-layers.ts';
export { createLayerThreads } from './layers/making/layer-threads.ts';
export {
  environmentPrefix,
  type LayeredPackage,
  type LayerProgress,
  type PackageLayers,
  type PartProgress,
} from './layers/package-layers.ts';
export { type ReadLock, readLock } from './locks/read-lock.ts';
export type { ReportRepodata } from './repodata/repodata-progress.ts';
export { createRepodataStore } from './repodata/repodata-store.ts';
export { createShardStore } from './repodata/shard-store.ts';
export { createChannelSummaries } from './search/channel-summaries.ts';
export { mostCounted } from './search/name-search.ts';
export {
  createPackageSearch,
  type PackageSearch,
  type SearchFailures,
  type SearchResult,
  type VersionsResult,
} from './search/package-search.ts';
export type { CondaSolver, SolveOptions, VirtualPackage } from './solving/conda-solver.ts';
export { createCondaSolver } from './solving/create-conda-solver.ts';
export { isUnsolvedFor } from './solving/explanation.ts';
export { virtualPackages } from './solving/virtual-packages.ts';
