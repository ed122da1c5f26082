/** Lines for pip, without what solves them. */

export { type PipLine, readPipLine } from './requirement.ts';
