/** Images that a scanner reads here, with documents that only it sees. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Fault } from '../../src/foundation/fault.ts';
import type { Documents } from '../../src/images/documents.ts';
import { createBlobFinder } from '../../src/pull/blobs/pulled-blob.ts';
import { createLentImages } from '../../src/pull/lent-images.ts';
import { createManifestFinder, createPulledImage } from '../../src/pull/pulled-image.ts';
import type { ContainerRequest } from '../../src/request/container-request.ts';
import { document, manifestType, part } from './made-documents.ts';

test('documents for a scanner take nothing of the share of its caller, and nothing else serves them', async () => {
  const full = async () => {
    throw new Fault('too-many-requests', 'the share of the network is full');
  };
  const documents = { local: async () => undefined, receive: full, manifest: full };
  const root = document(manifestType, { config: part('whole'), layers: [] });
  const more = document(manifestType, { config: part('short'), layers: [] });
  const access = { registry: 'r', repository: 'a', credentials: undefined };
  const image = createPulledImage({
    ...{ root, access, owned: new Set(), documents },
    onGrow() {},
  });
  const bases = createLentImages({ documents, servedNameStart: 'here/wt' });
  const request = { token: 'a', image: { repository: 'a' } } as ContainerRequest;
  using lent = bases.lend(request, image);
  lent.add(more);
  const read = bases.imageOf(lent.path.split('/')[1] ?? '');
  assert.ok(read);
  const find = createManifestFinder(documents as unknown as Documents, {} as never);
  assert.equal(await find(request, read, more.digest), more);
  const blobs = createBlobFinder({} as never);
  const { signal } = new AbortController();
  assert.equal(await blobs.head(read, more.digest, signal), more.bytes.length);
  assert.equal(await blobs.order(read, more.digest), undefined);
  const found = await blobs.open(read, more.digest, () => ({ start: 1, end: 4 }), signal);
  assert.ok(found.kind === 'stream' && found.size === more.bytes.length);
  const chunk = await found.source.read();
  assert.deepEqual(Buffer.from(chunk?.bytes ?? []), Buffer.from(more.bytes).subarray(1, 5));
  await assert.rejects(find(request, image, more.digest));
});
