/** Lines for pip, without what solves them. */

export { projectName } from '../wheel-file.ts';
export { type NamedIndex, type PipLine, readPipLine, splitHashes } from './requirement.ts';
export { isRequirementsFile, requirementsLines } from './requirements-file.ts';
