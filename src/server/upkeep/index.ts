/** The regular work of a server. */

export { startChores } from './chores.ts';
export { createDiskUseWatch } from './disk/disk-use.ts';
export { flushFigures, purgeFigures } from './figures.ts';
export { createReadiness, type Readiness } from './readiness.ts';
export { startScrub } from './scrub.ts';
export { startSweeping } from './sweep/sweeping.ts';
