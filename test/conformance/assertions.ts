import assert from 'node:assert/strict';
import { mediaTypes } from '../corpus/content.ts';
import type { ClientResponse, Repository } from './client.ts';

// A header each, as Go's clients send them.
const accept = [
  mediaTypes.ociIndex,
  mediaTypes.ociManifest,
  mediaTypes.dockerList,
  mediaTypes.dockerManifest,
];

export function assertStatus(response: ClientResponse, ...statuses: number[]): void {
  const text = response.body.subarray(0, 500).toString();
  assert.ok(
    statuses.includes(response.status),
    `${response.url}: ${response.status} instead of ${statuses.join(' or ')}: ${text}`,
  );
  assert.ok(response.isWhole, `${response.url}: the answer is incomplete`);
}

/** Checks a failure against the form of errors in the OCI distribution specification, Error Codes. */
export function assertError(
  response: ClientResponse,
  status: number | number[],
  ...codes: string[]
): void {
  assertStatus(response, ...[status].flat());
  const text = response.body.toString();
  const { errors } = JSON.parse(text);
  assert.ok(Array.isArray(errors) && errors.length > 0, text);
  assert.ok(codes.includes(errors[0].code), `${response.url}: ${codes.join(' or ')} in ${text}`);
  assert.equal(typeof errors[0].message, 'string');
}

/** What is served under a digest. */
export interface Served {
  readonly digest: string;
  readonly bytes: Buffer;
  /** Set for manifests only: descriptors state the types of blobs. */
  readonly mediaType?: string;
}

/** GET gives the content with exact headers, and HEAD gives the same headers. */
export async function assertServed(
  repository: Repository,
  route: string,
  { digest, bytes, mediaType }: Served,
): Promise<void> {
  const headers = mediaType === undefined ? {} : { accept };
  for (const method of ['GET', 'HEAD']) {
    const response = await repository.send(method, route, { headers });
    assertStatus(response, 200);
    // No `deepEqual`: its message would print megabytes.
    const isSame = response.body.equals(method === 'GET' ? bytes : Buffer.alloc(0));
    assert.ok(isSame, `${method} ${response.url}: the bytes differ`);
    assert.equal(response.headers['content-length'], String(bytes.length), `${method} ${route}`);
    assert.equal(response.headers['docker-content-digest'], digest, `${method} ${route}`);
    if (mediaType !== undefined) assert.equal(response.headers['content-type'], mediaType);
  }
}

/** The reference is unknown to GET and HEAD. */
export async function assertAbsent(repository: Repository, route: string): Promise<void> {
  const code = route.startsWith('blobs/') ? 'BLOB_UNKNOWN' : 'MANIFEST_UNKNOWN';
  assertError(await repository.send('GET', route), 404, code);
  const head = await repository.send('HEAD', route);
  assertStatus(head, 404);
  assert.equal(head.body.length, 0);
}

/** The absolute URL that the `Location` of a response stands for. */
export function locationOf({ headers, url }: ClientResponse): string {
  assert.ok(headers.location !== undefined, `${url}: the answer has a Location`);
  return new URL(headers.location, url).href;
}
