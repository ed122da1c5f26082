import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';

const intervalMs = 10;

/**
 * Polls until the check holds; throws after the time with what it was waiting for. The time is long, so that
 * only what never happens fails on a busy machine.
 */
export async function eventually(
  what: string,
  holds: () => boolean | Promise<boolean>,
  withinMs = 30_000,
): Promise<void> {
  const began = performance.now();
  while (!(await holds())) {
    if (performance.now() - began > withinMs) assert.fail(`not within ${withinMs} ms: ${what}`);
    await sleep(intervalMs);
  }
}
