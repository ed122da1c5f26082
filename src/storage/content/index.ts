/** Content-addressed bytes in a directory: the store, its checks, its buffers, scratch files. */

export { type Slab, SlabPool } from './buffers.ts';
export {
  type Checks,
  type ChecksOptions,
  chosenLater,
  createChecks,
  type Proof,
} from './checks.ts';
export { type ContentDirectoryOptions, openContentDirectory } from './content-directory.ts';
export { createContentPresence, removedMeanwhile } from './content-presence.ts';
export type { ContentStore, KeptContent } from './content-store.ts';
export {
  abandonedArrivalMs,
  abandonedRemovalMs,
  type ContentState,
  type ContentUses,
  longestRemovalMs,
  withoutRows,
} from './content-uses.ts';
export { fileSource, wholeFile } from './file-source.ts';
export { type Ingest, type IngestReader, type KeptDraft, startIngest } from './ingest.ts';
export type { LocalFile, ScratchFile } from './scratch-file.ts';
