/** Python packages as layers, beside the packages of Conda: indexes, solver, layers. */

export { checkBuiltWheel, identityOfWheel } from './built/check-built.ts';
export { createKeptWheels, type HistoryNote, type KeptWheels } from './built/kept-wheels.ts';
export { type BuilderIndexes, createBuilderIndexes } from './indexes/builder-indexes.ts';
export {
  createIndexAccess,
  hostsOfIndexes,
  type IndexSettings,
} from './indexes/index-access.ts';
export { createKeptFiles } from './indexes/kept-files.ts';
export { createLoopbackIndex } from './indexes/loopback-index.ts';
export { createPageStore } from './indexes/page-store.ts';
export { createPageThread } from './indexes/page-thread.ts';
export { createWheelMetadataSource } from './indexes/wheel-metadata-source.ts';
export {
  createMixedLayers,
  type LayeredEnvironment,
  type LayeredWheel,
  type MixedLayers,
} from './layers/environment-layers.ts';
export { createWheelThreads } from './layers/wheel-threads.ts';
export { readPythonLock } from './locks/read-python-lock.ts';
export { projectVersion } from './project-version.ts';
export { type CommitFinder, createCommitFinder } from './repositories/commit-finder.ts';
export {
  type CommitHistory,
  createRepositoryReader,
  type RepositoryReader,
  type Submodule,
} from './repositories/repository-reader.ts';
export {
  createProjectSearch,
  type ProjectResult,
  type ProjectSearch,
  projectIn,
} from './search/project-search.ts';
export { packagesOfProjects } from './solving/installed-projects.ts';
export {
  createPythonSolver,
  type PythonRequest,
  type PythonSolver,
} from './solving/python-solver.ts';
export { fitOfWheel, isPythonVersion, type PythonTarget } from './solving/python-target.ts';
export {
  NoPythonSolution,
  type UnbuiltProject,
  UvFailed,
  WheelsMissing,
} from './solving/solve-failures.ts';
export { createUvProgram, type UvProgram } from './solving/uv-program.ts';
export type { BuiltWheel, SourceFile, WheelFile } from './wheel-file.ts';
export { type AddressedWheels, createAddressedWheels } from './wheels/addressed-wheels.ts';
