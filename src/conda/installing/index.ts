/** What threads that install packages of any kind use: checks, zip files, trees of files, layers. */

export {
  type ArchiveLimits,
  ArchiveProblem,
  archiveFault,
  archiveLimits,
  checkedPath,
  LargeArchive,
  showPath,
  usualEntries,
} from '../archives/archive-checks.ts';
export { readZipMembers, type ZipMember } from '../archives/zip-members.ts';
export { packLayer } from '../layers/making/layer-output.ts';
export { serveLayers } from '../layers/making/serve-layers.ts';
export type { PythonPlace } from './installed-package.ts';
export { checkPaths, compareNames } from './plan-paths.ts';
export { pythonShebang } from './prefix/text-patches.ts';
export { fileMode, PrefixWriter, type TarOutput } from './prefix-writer.ts';
