/** Lines for pip, without what solves them. */

export {
  cloneAddress,
  commitAddress,
  directUrlOf,
  type GitRequirement,
  isCommitId,
} from '../repositories/git-address.ts';
export { type GitCommit, projectName } from '../wheel-file.ts';
export {
  type NamedIndex,
  type PipLine,
  type PythonRequirement,
  readPipLine,
  splitHashes,
} from './requirement.ts';
export { isRequirementsFile, requirementsLines } from './requirements-file.ts';
