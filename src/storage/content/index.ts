/** Content-addressed bytes in a directory: the store, its checks, its buffers, scratch files. */

export {
  type ChecksOptions,
  chosenLater,
  createChecks,
  type Proof,
} from './checks.ts';
export { type ContentDirectoryOptions, openContentDirectory } from './content-directory.ts';
export {
  abandonedArrivalMs,
  abandonedRemovalMs,
  type ContentState,
  type ContentUses,
  createContentPresence,
  longestRemovalMs,
  removedMeanwhile,
  withoutRows,
} from './content-presence.ts';
export type { ContentStore, KeptContent, LocalFile, ScratchFile } from './content-store.ts';
export { fileSource, type Slab, SlabPool, wholeFile } from './file-source.ts';
export { type Ingest, type IngestReader, type KeptDraft, startIngest } from './ingest.ts';
