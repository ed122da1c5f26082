import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { test } from 'node:test';
import { DigestTable } from '../../src/images/sif/squashfs/write/digest-table.ts';

const count = 8000;

/** Returns the text of a digest, one character per byte. */
function textOf(first: number, number: number): string {
  const digest = randomBytes(32);
  digest.writeUInt32LE(first);
  digest.writeUInt32LE(number, 4);
  return digest.toString('latin1');
}

/** Returns the processor time (ms) in which a table takes the digests. */
function addMs(digests: readonly string[]): number {
  const table = new DigestTable(digests.length);
  const before = process.threadCpuUsage();
  for (const [index, digest] of digests.entries()) table.add(digest, index);
  const { user, system } = process.threadCpuUsage(before);
  return (user + system) / 1000;
}

test('a digest has the value that it got first', () => {
  const digests = Array.from({ length: count }, (_, at) => textOf(at * 7919, at));
  const table = new DigestTable(count);
  for (const [index, digest] of digests.entries()) assert.equal(table.add(digest, index), index);
  for (const [index, digest] of digests.entries()) {
    assert.equal(table.add(digest, count + index), index);
  }
});

test('content whose digests are chosen to collide takes no longer than other content', () => {
  const numbers = Array.from({ length: count }, (_, at) => at);
  const others = numbers.map(at => textOf(at * 530_999, at));
  // The code is compiled once.
  addMs(others);
  const chosen = addMs(numbers.map(at => textOf(0, at)));
  assert.ok(chosen < 20 * Math.max(1, addMs(others)), `${chosen} ms`);
});
