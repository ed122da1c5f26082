import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Documents } from '../../src/images/documents.ts';
import { digestOf } from '../../src/oci/digest.ts';
import type { Document } from '../../src/oci/document.ts';
import { createImageFinder } from '../../src/pull/image-finder.ts';
import type { ContainerRequest } from '../../src/request/container-request.ts';

const manifestType = 'application/vnd.oci.image.manifest.v1+json';
const indexType = 'application/vnd.oci.image.index.v1+json';

function document(mediaType: string, body: object): Document {
  const bytes = Buffer.from(JSON.stringify({ schemaVersion: 2, mediaType, ...body }));
  return { bytes, mediaType, digest: digestOf(bytes) };
}

const part = (text: string) => ({ mediaType: 'x/y', digest: digestOf(text), size: text.length });
const entry = ({ mediaType, digest, bytes }: Document) => ({
  mediaType,
  digest,
  size: bytes.length,
});

/** An index with an index with a manifest, and what finds its image. `read` returns their documents. */
function nestedImage(read: (all: ReadonlyMap<string, Document>) => Documents['local']) {
  const child = document(manifestType, {
    config: part('config'),
    layers: [part('one'), part('two')],
  });
  const nested = document(indexType, { manifests: [entry(child)] });
  const root = document(indexType, { manifests: [entry(nested)] });
  const all = new Map([child, nested, root].map(one => [one.digest, one]));
  const find = createImageFinder({
    documents: { local: read(all) } as unknown as Documents,
    makeImage: () => assert.fail('it is here'),
    lookAtRight: async ({ image: { registry, repository } }) => ({
      access: { registry, repository, credentials: undefined },
      until: Number.POSITIVE_INFINITY,
    }),
    builtBy: () => assert.fail('it is not built'),
  });
  const request = {
    token: 'a'.repeat(32),
    image: { registry: 'r.example.com', repository: 'team/app', tag: '1' },
    fixed: { base: entry(root), served: { digest: root.digest, mediaType: indexType } },
    change: {},
    caller: { address: '192.0.2.1' },
  } as unknown as ContainerRequest;
  return { child, find, request };
}

test('simultaneous requests for parts of an image below an index all succeed', async () => {
  const { child, find, request } = nestedImage(all => async digest => {
    // As slow as a disk.
    await new Promise(resolve => setTimeout(resolve, 5));
    return all.get(digest);
  });
  const image = await find(request);
  const asked = ['config', 'one', 'two', 'config'].map(text => image.member(digestOf(text)));
  for (const member of await Promise.all(asked)) assert.ok(member);
  assert.equal((await image.member(child.digest))?.size, child.bytes.length);
  assert.equal(await image.member(digestOf('foreign')), undefined);
  assert.equal(await find(request), image, 'found once');
});

test('a search that a disk interrupts is repeated for the next request', async () => {
  let failures = 1;
  const { child, find, request } = nestedImage(all => async digest => {
    if (digest === child.digest && failures-- > 0) throw new Error('EMFILE');
    return all.get(digest);
  });
  const image = await find(request);
  await assert.rejects(image.member(digestOf('one')), /EMFILE/);
  assert.ok(await image.member(digestOf('one')));
});
