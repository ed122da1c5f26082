import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';

const intervalMs = 10;

/**
 * Polls until the check holds. Throws after the timeout with the awaited state. The timeout is long, so that a busy
 * machine causes no failure.
 */
export async function eventually(
  what: string,
  holds: () => boolean | Promise<boolean>,
  withinMs = 120_000,
): Promise<void> {
  const began = performance.now();
  while (!(await holds())) {
    if (performance.now() - began > withinMs) assert.fail(`not within ${withinMs} ms: ${what}`);
    await sleep(intervalMs);
  }
}
