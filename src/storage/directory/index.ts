/** The data directory: its lock, modes, key files, free space, and what is on the disk. */

export { lockData } from './data-lock.ts';
export {
  createDiskSpace,
  type DiskSpace,
  type DiskState,
  diskState,
  type SpacePromise,
  unlimitedSpace,
} from './disk-space.ts';
export { createDiskSync, type DiskSync } from './disk-sync.ts';
export { hasContent } from './has-content.ts';
export { readKeyFile } from './key-file.ts';
export { makePrivate, makePrivateFile } from './private-modes.ts';
export { syncDirectoriesNow, syncDirectory } from './sync-directory.ts';
export { writeOnce } from './write-once.ts';
