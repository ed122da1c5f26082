/** What threads that install packages of any kind use: checks, zip files, trees of files, layers. */

export {
  type ArchiveLimits,
  ArchiveProblem,
  archiveLimits,
  checkedPath,
  LargeArchive,
  problemOf,
  showPath,
  usualEntries,
} from '../archives/archive-checks.ts';
export { readZipMembers, type ZipMember } from '../archives/zip-members.ts';
export type { PythonPlace } from './installed-package.ts';
export { checkPaths, compareNames } from './plan-paths.ts';
export { pythonShebang } from './prefix/text-patches.ts';
export { directoryMode, fileMode, type TarOutput, TreeWriter } from './tree-writer.ts';
