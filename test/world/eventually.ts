import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';

const shortestPauseMs = 10;
const longestPauseMs = 100;

/**
 * Polls until the check holds. Pauses for twice as long as each check takes, because those that start programs would
 * slow down what they wait for, and for a twentieth of the wait so far: a long wait needs no exact end, and checks that
 * send requests would keep a processor busy. Throws after the timeout with the awaited state. The timeout is long, so
 * that a busy machine causes no failure.
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
    const patienceMs = Math.min(longestPauseMs, (now - began) / 20);
    await sleep(Math.max(shortestPauseMs, patienceMs, 2 * (now - looked)));
  }
}
