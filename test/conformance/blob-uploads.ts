import assert from 'node:assert/strict';
import { assertError, assertStatus, locationOf } from './assertions.ts';
import type { ClientResponse, Repository } from './client.ts';

const octets = { 'content-type': 'application/octet-stream' };

/** Three of them make a blob of `chunkedBytes`, the last a little shorter. */
export const chunkBytes = 1000;
export const chunkedBytes = 3 * chunkBytes - 5;

/** Sends a blob and returns the last response: 201, or 400 when the digest is not that of the bytes. */
export type UploadWay = (
  repository: Repository,
  bytes: Buffer,
  digest: string,
) => Promise<ClientResponse>;

/** Every way in which the specification lets a client push a blob; none states the algorithm first. */
export const uploadWays: Readonly<Record<string, UploadWay>> = {
  'POST with the digest and the content': postWhole,
  'POST, then PUT with the content': async (repository, bytes, digest) =>
    finish(repository, await begin(repository), digest, bytes),
  'one chunk': (repository, bytes, digest) =>
    sendChunks(repository, bytes, digest, { length: bytes.length }),
  'three chunks, then PUT without content': sendChunks,
  'two chunks, then PUT with the last': (repository, bytes, digest) =>
    sendChunks(repository, bytes, digest, { putsLast: true }),
  'a stream without a length': sendStream,
  'chunks out of order, then PUT without content': (repository, bytes, digest) =>
    sendChunks(repository, bytes, digest, { outOfOrder: true }),
  'chunks out of order, then PUT with the last': (repository, bytes, digest) =>
    sendChunks(repository, bytes, digest, { outOfOrder: true, putsLast: true }),
};

/** Starts an upload and returns its location. */
export async function begin(repository: Repository, query = ''): Promise<string> {
  const response = await repository.send('POST', `blobs/uploads/${query}`);
  assertStatus(response, 202);
  const least = Number(response.headers['oci-chunk-min-length'] ?? 0);
  assert.ok(least <= chunkBytes, `chunks of ${chunkBytes} bytes are too small for ${least}`);
  return locationOf(response);
}

/** Ends an upload, with the remaining content if there is any. */
export function finish(
  repository: Repository,
  location: string,
  digest: string,
  bytes: Buffer = Buffer.alloc(0),
): Promise<ClientResponse> {
  return repository.send('PUT', withDigest(location, digest), { headers: octets, body: bytes });
}

export function postWhole(
  repository: Repository,
  bytes: Buffer,
  digest: string,
): Promise<ClientResponse> {
  const route = `blobs/uploads/?digest=${encodeURIComponent(digest)}`;
  return repository.send('POST', route, { headers: octets, body: bytes });
}

export async function sendStream(
  repository: Repository,
  bytes: Buffer,
  digest: string,
): Promise<ClientResponse> {
  const headers = { ...octets, 'transfer-encoding': 'chunked' };
  const response = await repository.send('PATCH', await begin(repository), {
    headers,
    body: bytes,
  });
  assertStatus(response, 202);
  return finish(repository, locationOf(response), digest);
}

interface ChunkOptions {
  readonly length?: number;
  readonly outOfOrder?: boolean;
  readonly putsLast?: boolean;
}

async function sendChunks(
  repository: Repository,
  bytes: Buffer,
  digest: string,
  { length = chunkBytes, outOfOrder = false, putsLast = false }: ChunkOptions = {},
): Promise<ClientResponse> {
  let location = await begin(repository);
  for (let start = 0; start < bytes.length; start += length) {
    const end = Math.min(start + length, bytes.length);
    if (outOfOrder) {
      const wrong = wrongChunk(bytes, start, length);
      const isLast = putsLast && wrong.end === bytes.length;
      location = await sendWrongChunk(repository, location, {
        ...{ ...wrong, bytes, received: start },
        ...(isLast ? { digest } : {}),
      });
    }
    const chunk = { bytes, start, end };
    if (putsLast && end === bytes.length) {
      return sendChunk(repository, 'PUT', withDigest(location, digest), chunk);
    }
    const response = await sendChunk(repository, 'PATCH', location, chunk);
    assertStatus(response, 202);
    assert.equal(response.headers.range, `0-${end - 1}`);
    location = locationOf(response);
  }
  return finish(repository, location, digest);
}

export interface Chunk {
  /** Of the whole blob. */
  readonly bytes: Buffer;
  readonly start: number;
  /** The first byte that is not sent. */
  readonly end: number;
}

export function sendChunk(
  repository: Repository,
  method: 'PATCH' | 'PUT',
  location: string,
  { bytes, start, end }: Chunk,
): Promise<ClientResponse> {
  return repository.send(method, location, {
    headers: { ...octets, 'content-range': `${start}-${end - 1}` },
    body: bytes.subarray(start, end),
  });
}

/** A chunk that skips one, or where there is none to skip to, the first one again. */
function wrongChunk(bytes: Buffer, start: number, length: number): Omit<Chunk, 'bytes'> {
  const skipped = start + length;
  const wrong = skipped < bytes.length ? skipped : 0;
  return { start: wrong, end: Math.min(wrong + length, bytes.length) };
}

interface WrongChunk extends Chunk {
  /** Number of bytes in the upload. */
  readonly received: number;
  /** It is sent as the last one, with PUT. */
  readonly digest?: string;
}

/** Sends a chunk out of order, and asks for the next position, as a client does. */
async function sendWrongChunk(
  repository: Repository,
  location: string,
  { received, digest, ...chunk }: WrongChunk,
): Promise<string> {
  const target = digest === undefined ? location : withDigest(location, digest);
  const method = digest === undefined ? 'PATCH' : 'PUT';
  const refused = await sendChunk(repository, method, target, chunk);
  assertError(refused, 416, 'BLOB_UPLOAD_INVALID');
  const state = await repository.send('GET', target);
  assertStatus(state, 204);
  // A range cannot express an empty upload: registries return `0-0`.
  assert.equal(state.headers.range, `0-${Math.max(received - 1, 0)}`);
  return locationOf(state);
}

function withDigest(location: string, digest: string): string {
  const url = new URL(location);
  url.searchParams.set('digest', digest);
  return url.href;
}
