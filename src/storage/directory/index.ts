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
export { createDiskSync, type DiskSync, syncDirectoriesNow, syncDirectory } from './disk-sync.ts';
export { requireSafeFileSystem } from './file-system.ts';
export { hasContent } from './has-content.ts';
export { makePrivate, makePrivateFile, readKeyFile, writeOnce } from './private-files.ts';
