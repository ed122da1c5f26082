import assert from 'node:assert/strict';
import { assertServed, assertStatus, locationOf } from './assertions.ts';
import { begin, finish } from './blob-uploads.ts';
import type { ClientResponse, Repository } from './client.ts';
import type { DataSet, DraftManifest } from './data-set.ts';

export async function pushBlob(
  repository: Repository,
  bytes: Buffer,
  digest: string,
): Promise<void> {
  assertStatus(await finish(repository, await begin(repository), digest, bytes), 201);
}

export async function pushBlobs(repository: Repository, { blobs }: DataSet): Promise<void> {
  for (const [digest, bytes] of blobs) await pushBlob(repository, bytes, digest);
}

/** `reference` may have a query, such as `sha256:...?tag=1`. */
export function putManifest(
  repository: Repository,
  reference: string,
  { bytes, mediaType }: Pick<DraftManifest, 'bytes' | 'mediaType'>,
): Promise<ClientResponse> {
  const headers = { 'content-type': mediaType };
  return repository.send('PUT', `manifests/${reference}`, { headers, body: bytes });
}

/** Pushes by digest and under every tag, and checks each response against the specification. */
export async function pushManifest(repository: Repository, manifest: DraftManifest): Promise<void> {
  const { digest, tags, tagsInQuery } = manifest;
  const query = tagsInQuery ? `?${tags.map(tag => `tag=${tag}`).join('&')}` : '';
  const response = await putManifest(repository, digest + query, manifest);
  await assertPushed(repository, response, manifest);
  if (tagsInQuery) {
    // Node joins headers of the same name.
    assert.deepEqual(String(response.headers['oci-tag']).split(', '), tags);
    return;
  }
  for (const tag of tags) {
    await assertPushed(repository, await putManifest(repository, tag, manifest), manifest);
  }
}

async function assertPushed(
  repository: Repository,
  response: ClientResponse,
  manifest: DraftManifest,
): Promise<void> {
  assertStatus(response, 201);
  assert.equal(response.headers['docker-content-digest'], manifest.digest);
  assert.equal(response.headers['oci-subject'], manifest.subject);
  await assertServed(repository, locationOf(response), manifest);
}

export async function pushDataSet(repository: Repository, set: DataSet): Promise<void> {
  await pushBlobs(repository, set);
  for (const manifest of set.manifests) await pushManifest(repository, manifest);
}
