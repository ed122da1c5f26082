import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';

const shortestPauseMs = 10;

/**
 * Polls until the check holds, and pauses for twice as long as each check takes: those that start programs would
 * otherwise slow down what they wait for. Throws after the timeout with the awaited state. The timeout is long, so that
 * a busy machine causes no failure.
 */
export async function eventually(
  what: string,
  holds: () => boolean | Promise<boolean>,
  withinMs = 120_000,
): Promise<void> {
  const began = performance.now();
  for (;;) {
    const looked = performance.now();
    if (await holds()) return;
    const now = performance.now();
    if (now - began > withinMs) assert.fail(`not within ${withinMs} ms: ${what}`);
    await sleep(Math.max(shortestPauseMs, 2 * (now - looked)));
  }
}
