import assert from 'node:assert/strict';

const mostShown = 300;

/**
 * Requires the same bytes. `deepEqual` would need memory by the square of their number to show how they differ: that of
 * the whole machine, when an error comes in place of a blob.
 */
export function assertBytes(
  actual: Uint8Array | undefined,
  expected: Uint8Array | undefined,
  message = 'other bytes',
): void {
  if (actual === undefined || expected === undefined) {
    assert.equal(actual?.length, expected?.length, message);
    return;
  }
  if (Buffer.compare(actual, expected) === 0) return;
  const first = actual.findIndex((byte, at) => byte !== expected[at]);
  const differs = first < 0 ? Math.min(actual.length, expected.length) : first;
  const shown = Buffer.from(actual.subarray(0, mostShown)).toString();
  assert.fail(
    `${message}: ${actual.length} in place of ${expected.length}, from byte ${differs} on; they begin with ${JSON.stringify(shown)}`,
  );
}
