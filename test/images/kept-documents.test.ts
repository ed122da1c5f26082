/** Documents in memory take the memory that their cache counts. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ownBytes } from '../../src/foundation/own-bytes.ts';
import { createDocuments } from '../../src/images/documents.ts';
import { documentOf } from '../../src/oci/index.ts';

type Dependencies = Parameters<typeof createDocuments>;

test('a small document that is kept does not keep the block of memory that it was cut out of', async () => {
  const content = { claim: async () => true, write: async () => {}, read: async () => undefined };
  const share = { take: async () => ({ keep: async () => {}, [Symbol.dispose]() {} }) };
  const documents = createDocuments(
    content as unknown as Dependencies[0],
    {} as Dependencies[1],
    1000,
    share as unknown as Dependencies[3],
  );
  const document = documentOf(
    Buffer.concat([Buffer.from('{"schemaVersion"'), Buffer.from(':2}')]),
    'a/b',
  );
  assert.ok(document.bytes.buffer.byteLength > 10_000, 'it is a part of a block');
  await documents.keep(document, {});
  const kept = await documents.local(document.digest, document.mediaType);
  assert.ok(kept?.bytes.equals(document.bytes));
  assert.equal(kept?.bytes.buffer.byteLength, document.bytes.length);
});

test('bytes with their own memory are not copied', () => {
  const bytes = Buffer.allocUnsafeSlow(100);
  assert.equal(ownBytes(bytes), bytes);
  assert.equal(ownBytes(bytes.subarray(0, 60)).buffer, bytes.buffer);
  assert.equal(ownBytes(bytes.subarray(0, 10)).buffer.byteLength, 10);
});
