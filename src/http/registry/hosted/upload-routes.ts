import type { IncomingMessage, ServerResponse } from 'node:http';
import { Fault } from '../../../foundation/fault.ts';
import type { Rights } from '../../../hosted/accounts/index.ts';
import type {
  ChunkRange,
  HostedBlobs,
  Upload,
  UploadBody,
  Uploads,
} from '../../../hosted/index.ts';
import {
  type Digest,
  type DigestAlgorithm,
  isDigest,
  parseDigest,
  splitDigest,
} from '../../../oci/digest.ts';
import { queryOf } from '../../request-target.ts';
import { apiVersionHeader } from '../registry-responses.ts';

/** The target of a blob push in a repository. */
export interface UploadPath {
  readonly repository: string;
  readonly upload: string | undefined;
}

/** The caller that pushes. */
export interface Pusher {
  readonly rights: Rights;
  /** Name of the account whose open uploads are limited; without an account, name of the repository. */
  readonly owner: string;
}

/** Answers the routes of blob uploads. Source: OCI distribution specification 1.1, Pushing blobs. */
export async function sendUpload(
  uploads: Uploads,
  blobs: HostedBlobs,
  { rights, owner }: Pusher,
  { repository, upload }: UploadPath,
  req: IncomingMessage,
  res: ServerResponse,
): Promise<void> {
  const query = queryOf(req);
  if (upload === undefined) {
    if (req.method !== 'POST') throw noUpload('POST');
    return begin(uploads, blobs, { rights, owner }, repository, query, req, res);
  }
  const range = chunkRange(req.headers['content-range']);
  switch (req.method) {
    case 'GET':
      return sendState(res, 204, await uploads.state(repository, upload));
    case 'PATCH': {
      const appending = uploads.append(repository, upload, uploadBody(req), range);
      return sendState(res, 202, await withPlace(uploads, repository, upload, appending));
    }
    case 'PUT': {
      const digest = parseDigest(query.get('digest') ?? '');
      const finishing = uploads.finish(repository, upload, uploadBody(req), range, digest);
      await withPlace(uploads, repository, upload, finishing);
      return sendCreated(res, repository, digest);
    }
    case 'DELETE':
      await uploads.cancel(repository, upload);
      res.writeHead(204, apiVersionHeader);
      res.end();
      return;
    default:
      throw noUpload('GET, PATCH, PUT, DELETE');
  }
}

async function begin(
  uploads: Uploads,
  blobs: HostedBlobs,
  { rights, owner }: Pusher,
  repository: string,
  query: URLSearchParams,
  req: IncomingMessage,
  res: ServerResponse,
): Promise<void> {
  const mount = query.get('mount');
  if (mount !== null && isDigest(mount)) {
    const from = query.get('from') || undefined;
    const isMounted = await blobs.mount(repository, mount, from, rights);
    if (isMounted) return sendCreated(res, repository, mount);
  }
  const whole = query.get('digest');
  const digest = whole === null ? undefined : parseDigest(whole);
  const upload = await uploads.start(repository, owner, algorithmOf(query, digest));
  if (digest === undefined) return sendState(res, 202, upload);
  try {
    await uploads.finish(repository, upload.id, uploadBody(req), undefined, digest);
  } catch (error) {
    // No client knows its id, so none could resume it.
    await uploads.cancel(repository, upload.id).catch(() => {});
    throw error;
  }
  sendCreated(res, repository, digest);
}

/** Returns the digest algorithm that the client announces. Default: sha256. */
function algorithmOf(query: URLSearchParams, digest: Digest | undefined): DigestAlgorithm {
  if (digest !== undefined) return splitDigest(digest).algorithm;
  return query.get('digest-algorithm') === 'sha512' ? 'sha512' : 'sha256';
}

/** Awaits the work. Adds headers to the fault of a misplaced chunk that say where the upload continues. */
async function withPlace<T>(
  uploads: Uploads,
  repository: string,
  id: string,
  work: Promise<T>,
): Promise<T> {
  try {
    return await work;
  } catch (error) {
    if (!(error instanceof Fault) || error.kind !== 'chunk-invalid') throw error;
    const { message, phase = 'push' } = error;
    const headers = placeHeaders(uploads.find(repository, id));
    throw new Fault('chunk-invalid', message, { phase, headers });
  }
}

/** Returns the headers with the location of an upload and the bytes received. */
function placeHeaders({ id, repository, size }: Upload): Record<string, string> {
  return {
    location: `/v2/${repository}/blobs/uploads/${id}`,
    // No range can express an empty upload; registries send `0-0`.
    range: `0-${Math.max(0, size - 1)}`,
    'docker-upload-uuid': id,
  };
}

function sendState(res: ServerResponse, status: number, upload: Upload): void {
  res.writeHead(status, {
    ...apiVersionHeader,
    ...placeHeaders(upload),
    ...(status === 204 ? {} : { 'content-length': '0' }),
  });
  res.end();
}

function sendCreated(res: ServerResponse, repository: string, digest: Digest): void {
  res.writeHead(201, {
    ...apiVersionHeader,
    location: `/v2/${repository}/blobs/${digest}`,
    'docker-content-digest': digest,
    'content-length': '0',
  });
  res.end();
}

/** Parses `0-99`. Some clients send `bytes 0-99/*`, as in HTTP. */
function chunkRange(header: string | undefined): ChunkRange | undefined {
  if (header === undefined) return undefined;
  const [, start, end] = /^(?:bytes[ =])?(\d{1,15})-(\d{1,15})(?:\/.*)?$/.exec(header.trim()) ?? [];
  if (start === undefined || Number(end) < Number(start)) {
    throw new Fault('bad-request', 'Content-Range must be of the form <first>-<last>', {
      phase: 'push',
    });
  }
  return { start: Number(start), end: Number(end) };
}

function noUpload(allow: string): Fault {
  return new Fault(
    'method-not-allowed',
    'Uploads begin with POST <repository>/blobs/uploads/; its Location takes PATCH, PUT, GET and DELETE',
    { phase: 'request', headers: { allow } },
  );
}

// A sender that is silent for this time is gone. The upload keeps the bytes already sent.
const idleMs = 60_000;

/** Returns the body of a request in the form that an upload accepts. */
function uploadBody(request: IncomingMessage): UploadBody {
  const length = request.headers['content-length'];
  return {
    chunks: read(request),
    length: length === undefined ? undefined : Number(length),
    stop: reason => {
      request.destroy(reason);
    },
  };
}

async function* read(request: IncomingMessage): AsyncGenerator<Uint8Array> {
  const { socket } = request;
  const silence = `The client has sent nothing for ${idleMs / 1000} seconds`;
  const stop = () => request.destroy(new Fault('too-slow', silence, { phase: 'push' }));
  socket.setTimeout(idleMs, stop);
  try {
    // When the upload is rejected midway, the response still needs the connection.
    const pieces = request.iterator({ destroyOnReturn: false });
    for await (const bytes of pieces) yield bytes as Buffer;
  } finally {
    socket.setTimeout(0);
    socket.off('timeout', stop);
  }
}
