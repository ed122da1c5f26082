/** Streams of libdeflate become one stream, whatever is in them. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { gunzipSync, inflateRawSync } from 'node:zlib';
import fc from 'fast-check';
import { openDeflate } from '../../../src/archives/deflate/deflate.ts';
import { openEnded } from '../../../src/archives/deflate/open-ended.ts';
import { createGzipWriter } from '../../../src/conda/layers/gzip/gzip-members.ts';

const lastBlock = Buffer.from([1, 0, 0, 0xff, 0xff]);
const most = 100_000;
const levels = [0, 1, 5, 9].map(level => openDeflate(level, most, 2 * most));

/** Texts, noise, repetitions and single bytes: blocks of all three types. */
const content = fc.oneof(
  fc.uint8Array({ maxLength: 3000 }).map(bytes => Buffer.from(bytes)),
  fc.string({ maxLength: 300 }).map(text => Buffer.from(text)),
  fc
    .tuple(fc.uint8Array({ minLength: 1, maxLength: 400 }), fc.integer({ min: 1, max: 90 }))
    .map(([bytes, times]) => Buffer.concat(Array.from({ length: times }, () => bytes))),
  fc.integer({ min: 1, max: most }).map(size => Buffer.alloc(size, 'abcabd')),
);

test('streams that are no longer ended can be put together', () => {
  fc.assert(
    fc.property(fc.array(content, { maxLength: 5 }), fc.constantFrom(...levels), (all, deflate) => {
      const streams = all.map(bytes => {
        bytes.copy(deflate.content);
        const stream = deflate.stream.subarray(0, deflate.compress(bytes.length));
        return openEnded(Buffer.from(stream));
      });
      const whole = inflateRawSync(Buffer.concat([...streams, lastBlock]));
      assert.ok(whole.equals(Buffer.concat(all)));
    }),
    { numRuns: 300 },
  );
});

test('a gzip member can be longer than the memory of the compressor', () => {
  const parts: Buffer[] = [];
  using gzip = createGzipWriter(part => parts.push(Buffer.from(part)));
  const pieces = ['first', 'x'.repeat(1024 * 1024), '', 'last'].map(text => Buffer.from(text));
  gzip.write(Buffer.from('before'));
  gzip.single(pieces);
  gzip.write(Buffer.from('after'));
  gzip.end();
  const layer = Buffer.concat(parts);
  const all = ['before', ...pieces, 'after'].map(String).join('');
  assert.equal(gunzipSync(layer).toString(), all);
  const header = Buffer.from([0x1f, 0x8b, 8, 0]);
  const members: number[] = [];
  for (let at = layer.indexOf(header); at >= 0; at = layer.indexOf(header, at + 1))
    members.push(at);
  assert.equal(members.length, 3);
});
