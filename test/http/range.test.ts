import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { Fault } from '../../src/foundation/fault.ts';
import { parseRanges } from '../../src/http/registry/blobs/range.ts';

/** The one part of a header. */
function parseRange(header: string | undefined, total: number) {
  const parts = parseRanges(header, total);
  assert.ok(parts === undefined || parts.length === 1);
  return parts?.[0];
}

const size = fc.integer({ min: 1, max: 10_000 });

test('a range inside the content is served as requested', () => {
  fc.assert(
    fc.property(size, fc.nat(), fc.nat(), (total, one, other) => {
      const [start = 0, end = 0] = [one % total, other % total].sort((a, b) => a - b);
      assert.deepEqual(parseRange(`bytes=${start}-${end}`, total), { start, end });
      assert.deepEqual(parseRange(`bytes=${start}-`, total), { start, end: total - 1 });
      assert.deepEqual(parseRange(`bytes=${start}-${total + other}`, total), {
        start,
        end: total - 1,
      });
    }),
  );
});

test('a suffix is the end, or the whole content', () => {
  fc.assert(
    fc.property(size, fc.integer({ min: 1, max: 20_000 }), (total, length) => {
      const start = Math.max(0, total - length);
      assert.deepEqual(parseRange(`bytes=-${length}`, total), { start, end: total - 1 });
    }),
  );
});

test('a range outside the content is refused with the size', () => {
  fc.assert(
    fc.property(fc.nat(10_000), fc.nat(), (total, beyond) => {
      assert.throws(
        () => parseRange(`bytes=${total + beyond}-`, total),
        (error: unknown) =>
          error instanceof Fault &&
          error.status === 416 &&
          error.headers['content-range'] === `bytes */${total}`,
      );
    }),
  );
  for (const header of ['bytes=-0', 'bytes=5-4', 'bytes=0-', 'bytes=-1']) {
    assert.throws(() => parseRange(header, 0), Fault, header);
  }
});

test('for any header, the answer is a part, the whole, or a refusal', () => {
  const header = fc.oneof(
    fc.string(),
    fc.stringMatching(/^bytes=[0-9, -]{0,12}$/),
    fc.stringMatching(/^[a-z]{1,6} ?= ?\d{0,30}-\d{0,30}$/),
  );
  fc.assert(
    fc.property(header, size, (text, total) => {
      try {
        for (const range of parseRanges(text, total) ?? []) {
          assert.ok(Number.isInteger(range.start) && Number.isInteger(range.end), text);
          assert.ok(0 <= range.start && range.start <= range.end && range.end < total, text);
        }
      } catch (error) {
        assert.ok(error instanceof Fault && error.status === 416, text);
      }
    }),
    { numRuns: 1000 },
  );
});

test('no header, other units and malformed ranges return the whole content', () => {
  for (const header of [
    undefined,
    '',
    'bytes=',
    'bytes=-',
    'bytes=,',
    'bytes=1-2,x',
    'bytes=1-2,3',
    'bytes=1-2-3,5-6',
    'items=0-1',
    'bytes 0-1',
    'kilobytes=0-1',
  ]) {
    assert.equal(parseRange(header, 10), undefined, header);
  }
});

test('several ranges keep their order; those that overlap become one, those outside are left out', () => {
  for (const [header, expected] of [
    ['bytes=4-5,1-2', ['4-5', '1-2']],
    ['bytes=1-2, 3-4 ,-1', ['1-2', '3-4', '9-9']],
    ['bytes=1-2,20-30,5-', ['1-2', '5-9']],
    ['bytes=6-8,1-2,5-7', ['5-8', '1-2']],
    ['bytes=0-1,3-4,6-7,1-6', ['0-7']],
    ['bytes=0-,3-4', ['0-9']],
    ['bytes=1-2,,3-4,', ['1-2', '3-4']],
    ['bytes=0-0,4-5,8-8,5-6', ['0-0', '4-6', '8-8']],
    ['bytes=0-0,4-5,2-2,5-8,9-9,7-9', ['0-0', '4-9', '2-2']],
  ] as const) {
    const parts = parseRanges(header, 10)?.map(({ start, end }) => `${start}-${end}`);
    assert.deepEqual(parts, expected, header);
  }
  assert.throws(() => parseRanges('bytes=10-,20-30', 10), { status: 416 });
});

test('more ranges than a client needs are refused with 400, so that it asks for fewer', () => {
  const header = (count: number) =>
    `bytes=${Array.from({ length: count }, (_, at) => `${at * 2}-${at * 2}`).join(',')}`;
  assert.equal(parseRanges(header(128), 1000)?.length, 128);
  assert.throws(() => parseRanges(header(129), 1000), { status: 400 });
});

test('a header is read up to 16 KiB: a longer one returns the whole content', () => {
  const header = (length: number) => 'bytes=0-1'.padEnd(length, ' ');
  assert.deepEqual(parseRange(header(16 * 1024), 10), { start: 0, end: 1 });
  assert.equal(parseRange(header(16 * 1024 + 1), 10), undefined);
});
