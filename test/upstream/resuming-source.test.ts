import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import type { ByteSource } from '../../src/storage/content/byte-source.ts';
import { resumingSource } from '../../src/upstream/resuming-source.ts';
import { assertBytes } from '../world/assert-bytes.ts';

const blob = Buffer.from(Array.from({ length: 200 }, (_, at) => at));

/** The blob from an offset, in chunks, up to where it breaks. */
function body(offset: number, chunk: number, breakAt: number, how: 'error' | 'end'): ByteSource {
  let position = offset;
  return {
    async read() {
      if (position >= breakAt && how === 'error') throw new Error('broken');
      if (position >= Math.min(breakAt, blob.length)) return null;
      const end = Math.min(position + chunk, breakAt, blob.length);
      const bytes = blob.subarray(position, end);
      position = end;
      return { bytes, release() {} };
    },
    destroy() {},
  };
}

async function readAll(source: ByteSource): Promise<Buffer> {
  const parts: Buffer[] = [];
  for (let chunk = await source.read(); chunk; chunk = await source.read()) {
    assert.ok(chunk.bytes.length > 0);
    parts.push(Buffer.from(chunk.bytes));
    chunk.release();
  }
  return Buffer.concat(parts);
}

test('after any interruption, exactly the requested bytes arrive', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.record({
        start: fc.nat(blob.length - 1),
        length: fc.integer({ min: 1, max: blob.length }),
        chunk: fc.integer({ min: 1, max: 70 }),
        breaks: fc.array(fc.integer({ min: 1, max: 60 }), { maxLength: 2 }),
        how: fc.constantFrom('error', 'end') as fc.Arbitrary<'error' | 'end'>,
        ranges: fc.boolean(),
      }),
      async ({ start, length, chunk, breaks, how, ranges }) => {
        const end = Math.min(start + length, blob.length) - 1;
        const waiting = [...breaks];
        const open = (position: number) => {
          const offset = ranges ? position : 0;
          const more = waiting.shift();
          const breakAt = more === undefined ? Number.POSITIVE_INFINITY : position + more;
          return { source: body(offset, chunk, breakAt, how), offset };
        };
        const source = resumingSource({
          first: open(start),
          start,
          end,
          reopen: async at => open(at),
        });
        assertBytes(await readAll(source), blob.subarray(start, end + 1));
      },
    ),
    { numRuns: 40 },
  );
});

test('a body with a gap is refused', async () => {
  const late = () => ({ source: body(50, 10, 1000, 'end'), offset: 50 });
  assert.throws(() =>
    resumingSource({ first: late(), start: 10, end: 99, reopen: async () => late() }),
  );
  const source = resumingSource({
    first: { source: body(10, 10, 30, 'error'), offset: 10 },
    start: 10,
    end: 99,
    reopen: async () => late(),
  });
  await assert.rejects(readAll(source), /begins at 50 instead of 30/);
});

test('after four failed attempts, the error of the upstream is reported', async () => {
  let opened = 0;
  const source = resumingSource({
    first: { source: body(0, 10, 20, 'error'), offset: 0 },
    start: 0,
    end: 199,
    reopen: async () => {
      opened += 1;
      throw new Error(`try ${opened}`);
    },
  });
  await assert.rejects(readAll(source), /try 3/);
});

test('a destroyed source returns nothing more, and releases connections that open late', async () => {
  const asked = Promise.withResolvers<void>();
  const opening = Promise.withResolvers<{ source: ByteSource; offset: number }>();
  const source = resumingSource({
    first: { source: body(0, 10, 10, 'error'), offset: 0 },
    start: 0,
    end: 199,
    reopen: () => {
      asked.resolve();
      return opening.promise;
    },
  });
  await source.read();
  const waiting = source.read();
  waiting.catch(() => {});
  await asked.promise;
  source.destroy(new Error('gone'));
  let isFreed = false;
  const late = body(10, 10, 1000, 'end');
  opening.resolve({
    offset: 10,
    source: {
      ...late,
      read: async () => {
        if (isFreed) throw new Error('freed');
        return late.read();
      },
      destroy: () => {
        isFreed = true;
      },
    },
  });
  await assert.rejects(waiting);
  assert.ok(isFreed);
});
