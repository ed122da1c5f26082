/** The regular work of a server. */

export { flushFigures, purgeFigures, startChores } from './chores.ts';
export { createDiskUseWatch } from './disk-use.ts';
export { createReadiness, type Readiness } from './readiness.ts';
export { startSweeping } from './sweep/sweep.ts';
export { startScrub } from './verify.ts';
