import { setImmediate as nextTurn } from 'node:timers/promises';

const turnMs = 8;

/**
 * Returns a function that yields to the event loop, but only when the current turn has lasted long
 * enough.
 */
export function createTurnPause(): () => Promise<void> {
  let began = performance.now();
  return async () => {
    if (performance.now() - began < turnMs) return;
    await nextTurn();
    began = performance.now();
  };
}
