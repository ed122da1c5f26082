import assert from 'node:assert/strict';
import { test } from 'node:test';
import { keepMs } from '../../src/builds/keep-times.ts';
import type { BuildOutcome, BuildRow } from '../../src/storage/rows/images/build-rows.ts';

test('the shortest applicable time counts: of failures, of callers without a login, and the usual one', () => {
  for (const [times, isTrusted, succeeded, kept] of [
    [{ usual: 30, failed: 20, anonymous: 10 }, true, true, 30],
    [{ usual: 30, failed: 20, anonymous: 10 }, true, false, 20],
    [{ usual: 30, failed: 20, anonymous: 10 }, false, true, 10],
    [{ usual: 30, failed: 20, anonymous: 10 }, false, false, 10],
    [{ usual: 30, failed: 10, anonymous: 20 }, false, false, 10],
    [{ usual: 30, failed: 60, anonymous: 90 }, false, false, 30],
  ] as const) {
    const build = { isTrusted } as BuildRow;
    assert.equal(keepMs(times, build, { succeeded } as BuildOutcome), kept);
  }
});
