/** Waiting with an end, closing in turn, threads. */

export { atMost, unlessAborted } from './bounded-wait.ts';
export { type ClosingPart, closeInTurn } from './closing.ts';
export { endThread, startThread } from './threads.ts';
