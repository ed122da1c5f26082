import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { Fault } from '../../src/foundation/fault.ts';
import { parseRange } from '../../src/http/registry/blobs/range.ts';

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
        const range = parseRange(text, total);
        if (!range) return;
        assert.ok(Number.isInteger(range.start) && Number.isInteger(range.end), text);
        assert.ok(0 <= range.start && range.start <= range.end && range.end < total, text);
      } catch (error) {
        assert.ok(error instanceof Fault && error.status === 416, text);
      }
    }),
    { numRuns: 1000 },
  );
});

test('no header, other units and several ranges return the whole content', () => {
  for (const header of [
    undefined,
    '',
    'bytes=',
    'bytes=-',
    'bytes=1-2,4-5',
    'items=0-1',
    'bytes 0-1',
  ]) {
    assert.equal(parseRange(header, 10), undefined, header);
  }
});
