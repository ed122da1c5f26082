import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import {
  findEntry,
  type Packed,
  pack,
  unpack,
} from '../../../src/conda/repodata/shards/msgpack.ts';

const value = fc.letrec<{ value: Packed }>(tie => ({
  value: fc.oneof(
    { maxDepth: 4 },
    fc.constant(null),
    fc.boolean(),
    fc.maxSafeInteger(),
    fc.double({ noNaN: true }).map(number => (Object.is(number, -0) ? 0 : number)),
    fc.string({ maxLength: 300 }),
    fc.uint8Array({ maxLength: 300 }).map(bytes => Buffer.from(bytes)),
    fc.array(tie('value'), { maxLength: 40 }),
    fc.dictionary(fc.string(), tie('value'), { maxKeys: 40 }),
  ),
})).value;

test('a value is read as it was written', () => {
  fc.assert(
    fc.property(value, written => assert.deepEqual(plain(unpack(pack(written))), plain(written))),
  );
});

test('an entry of nested maps is found among others', () => {
  fc.assert(
    fc.property(fc.array(value, { maxLength: 5 }), value, (others, wanted) => {
      const entries = others.map((other, at) => [`other ${at}`, other]);
      const map = Object.fromEntries([...entries, ['wanted', { inner: wanted }]]);
      assert.deepEqual(plain(findEntry(pack(map), ['wanted', 'inner']) ?? null), plain(wanted));
      assert.equal(findEntry(pack(map), ['wanted', 'absent']), undefined);
    }),
  );
});

test('any bytes are read or refused, in time', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 100 }), bytes => {
      for (const read of [() => unpack(bytes), () => findEntry(bytes, ['a', 'b'])]) {
        try {
          read();
        } catch (error) {
          assert.ok(error instanceof RangeError, String(error));
        }
      }
    }),
    { numRuns: 2000 },
  );
});

test('sizes that lie and values that are nested too deeply are refused', () => {
  assert.throws(() => unpack(Buffer.from([0xdd, 0xff, 0xff, 0xff, 0xff])), RangeError);
  assert.throws(() => unpack(Buffer.from([0xdf, 0xff, 0xff, 0xff, 0xff])), RangeError);
  assert.throws(() => unpack(Buffer.from([0xc6, 0xff, 0xff, 0xff, 0xff])), RangeError);
  assert.throws(() => unpack(Buffer.alloc(1000, 0x91)), RangeError);
  assert.throws(
    () => findEntry(Buffer.from([0x81, 0xa1, 0x62, 0xdd, 0xff, 0xff, 0xff, 0xff]), ['a']),
    RangeError,
  );
});

/** Maps that are read have no prototype. */
function plain(value: Packed): unknown {
  if (value instanceof Uint8Array) return [...value];
  if (Array.isArray(value)) return value.map(plain);
  if (typeof value !== 'object' || value === null) return value;
  return Object.entries(value).map(([name, inner]) => [name, plain(inner)]);
}
