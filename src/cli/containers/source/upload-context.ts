import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { crc32 } from 'node:zlib';
import { type ContextEntry, contextTypes, writeEntries } from '../../../contexts/index.ts';
import { SingleFlight } from '../../../foundation/single-flight.ts';
import { sizeText } from '../../../foundation/text.ts';
import { mediaTypes } from '../../../oci/media-type.ts';
import { CommandError, type Values } from '../../command/command.ts';
import { askServer, claimOf, post, RefusedError, serverAddress } from '../../server-client.ts';
import { type ContextDirectory, contextAdvice, type SentContext } from './packed-context.ts';

/** Source: `ContextGrant` of the API. */
interface Grant {
  readonly registry: string;
  readonly repository: string;
  readonly token: string;
}

interface Part {
  readonly mediaType: string;
  readonly digest: string;
  readonly size: number;
}

const mostAtOnce = 6;
const memoryBytes = 192 * 1024 * 1024;

/**
 * Uploads a build context as an artifact, and returns its name for a request. Sends only blobs that the server does
 * not have, so an interrupted upload resumes. Throws {@link CommandError}.
 */
export async function uploadContext(
  values: Values,
  directory: ContextDirectory,
): Promise<SentContext> {
  const { entries, bytes, isFiltered } = directory;
  const first = await askGrant(values);
  const { registry, repository } = first;
  const push = createRegistryPush({
    server: serverAddress(values),
    repository,
    token: tokensOf(values, first),
  });
  const files = entries.filter(({ kind }) => kind === 'file').length;
  const progress = uploadProgress(process.stderr, { bytes, files });
  try {
    const layers = await pushContent(push, directory, progress.add);
    const list = writeEntries(entries);
    const config = partOf(contextTypes.list, list);
    await push.blob(config.digest, list);
    const manifest = Buffer.from(
      JSON.stringify({
        schemaVersion: 2,
        mediaType: mediaTypes.ociManifest,
        artifactType: contextTypes.artifact,
        config,
        layers,
      }),
    );
    const { digest } = partOf(mediaTypes.ociManifest, manifest);
    await push.manifest(digest, mediaTypes.ociManifest, manifest);
    const location = `oci://${registry}/${repository}@${digest}`;
    progress.end(true);
    return isFiltered ? { location, isFiltered } : { location };
  } catch (error) {
    progress.end(false);
    // Quotas and limits of single blobs.
    const isTooLarge = error instanceof RefusedError && [403, 413, 507].includes(error.status);
    if (!isTooLarge) throw error;
    throw new CommandError(`${error.message}\n${contextAdvice(directory)}`);
  }
}

async function askGrant(values: Values): Promise<Grant> {
  return (await post(values, '/v1alpha1/contexts', await claimOf(values))) as Grant;
}

/** The token of the grant, and a new one when the server refuses it because it has expired. */
function tokensOf(values: Values, { token }: Grant): (isRefused: boolean) => Promise<string> {
  let current = Promise.resolve(token);
  const renewals = new SingleFlight<string>();
  return isRefused => {
    if (isRefused) current = renewals.run(async () => (await askGrant(values)).token);
    return current;
  };
}

/** Pushes the content of all files, some blobs at a time; returns its parts in order. */
async function pushContent(
  push: RegistryPush,
  { path, entries, bytes }: ContextDirectory,
  onDone: (bytes: number, sent: boolean) => void,
): Promise<Part[]> {
  const grain = grainOf(bytes);
  const atOnce = Math.max(2, Math.min(mostAtOnce, Math.floor(memoryBytes / largestBlob(grain))));
  const parts: Part[] = [];
  const pushed = new Map<string, Promise<void>>();
  const running = new Set<Promise<void>>();
  let hasFailed = false;
  for await (const blob of cutBlobs(path, entries, grain)) {
    const part = partOf(contextTypes.content, blob);
    parts.push(part);
    if (pushed.has(part.digest)) {
      onDone(part.size, false);
      continue;
    }
    const work = push.blob(part.digest, blob).then(sent => onDone(part.size, sent));
    pushed.set(part.digest, work);
    const ended = work.then(
      () => void running.delete(ended),
      () => {
        hasFailed = true;
      },
    );
    running.add(ended);
    if (running.size >= atOnce) await Promise.race(running);
    if (hasFailed) break;
  }
  await Promise.all(pushed.values());
  return parts;
}

function partOf(mediaType: string, bytes: Buffer): Part {
  const hex = createHash('sha256').update(bytes).digest('hex');
  return { mediaType, digest: `sha256:${hex}`, size: bytes.length };
}

/** Shows the progress of an upload: in place on a terminal, and elsewhere after its end. */
interface UploadProgress {
  /** Notes that a blob is on the server; `sent` is false for a blob that was there before. */
  add(bytes: number, sent: boolean): void;
  end(succeeded: boolean): void;
}

const redrawMs = 200;

function uploadProgress(
  sink: NodeJS.WriteStream,
  total: { readonly bytes: number; readonly files: number },
): UploadProgress {
  const isLive = sink.isTTY && process.env.TERM !== 'dumb';
  let done = 0;
  let sentBytes = 0;
  let drawnAt = 0;
  const draw = (text: string) => sink.write(`\r\x1b[K${text}`);
  return {
    add(bytes, sent) {
      done += bytes;
      if (sent) sentBytes += bytes;
      if (!isLive || Date.now() - drawnAt < redrawMs) return;
      drawnAt = Date.now();
      const parts = `${sizeText(done)} of ${sizeText(total.bytes)}, ${sizeText(sentBytes)} sent`;
      draw(`Uploading the build context: ${parts}`);
    },
    end(succeeded) {
      if (isLive) draw('');
      if (!succeeded) return;
      const whole = `${sizeText(total.bytes)} in ${total.files} files`;
      sink.write(`Build context: ${whole}, ${sizeText(sentBytes)} sent\n`);
    },
  };
}

const mebibyte = 1024 * 1024;
const smallestChunk = 16 * mebibyte;
// Including the packs that a large file cuts short, at most 1700: a manifest may have 2000.
const packsAtMost = 800;
// Among the files after the minimum size of a pack, one in this many ends it.
const filesToEnd = 16;
const largestPack = 4;

/**
 * Minimum bytes of a pack of small files. This is a power of two, so that a context that grows a little keeps its
 * blobs.
 */
export function grainOf(contextBytes: number): number {
  let grain = mebibyte;
  while (contextBytes / grain > packsAtMost) grain *= 2;
  return grain;
}

/** Maximum bytes of a blob. */
function largestBlob(grain: number): number {
  return Math.max(smallestChunk, grain * (largestPack + 1));
}

/**
 * Cuts the content of a directory's files into blobs, so that a change of one file changes few of them. Large files
 * get their own blobs, in chunks. Small files are packed together. The names of files decide where a pack ends, so
 * adding or removing a file does not move other packs. Throws {@link CommandError}.
 */
export async function* cutBlobs(
  directory: string,
  entries: Iterable<ContextEntry>,
  grain: number,
): AsyncGenerator<Buffer> {
  let pack: Buffer[] = [];
  let packed = 0;
  for (const { path, kind, size } of entries) {
    if (kind !== 'file' || size === 0) continue;
    const isLarge = size >= grain;
    if (isLarge && packed > 0) {
      yield Buffer.concat(pack);
      [pack, packed] = [[], 0];
    }
    if (isLarge) {
      yield* chunksOf(join(directory, path), size, Math.max(smallestChunk, grain));
      continue;
    }
    // Small files take four times the processor time when they are read through the thread pool.
    const bytes = readFileSync(join(directory, path));
    if (bytes.length !== size) throw changedFile(path);
    pack.push(bytes);
    packed += size;
    const isFull =
      packed >= grain && (crc32(path) % filesToEnd === 0 || packed >= largestPack * grain);
    if (isFull) {
      yield Buffer.concat(pack);
      [pack, packed] = [[], 0];
    }
  }
  if (packed > 0) yield Buffer.concat(pack);
}

async function* chunksOf(path: string, size: number, chunk: number): AsyncGenerator<Buffer> {
  const file = await open(path);
  try {
    if ((await file.stat()).size !== size) throw changedFile(path);
    for (let start = 0; start < size; start += chunk) {
      const wanted = Math.min(chunk, size - start);
      const buffer = Buffer.allocUnsafe(wanted);
      let filled = 0;
      while (filled < wanted) {
        const { bytesRead } = await file.read(buffer, filled, wanted - filled, start + filled);
        if (bytesRead === 0) throw changedFile(path);
        filled += bytesRead;
      }
      yield buffer;
    }
  } finally {
    await file.close();
  }
}

function changedFile(path: string): CommandError {
  return new CommandError(`${path} changed while it was read: run the command again`);
}

/** The destination of blobs, and the authority to push them. */
interface PushTarget {
  readonly server: string;
  readonly repository: string;
  /** Returns a bearer token, or a new one when the last was rejected. */
  token(isRefused: boolean): Promise<string>;
}

/** Pushes into one repository. Temporary failures are retried. Throws {@link CommandError}. */
interface RegistryPush {
  /** Returns false for a blob that exists already: nothing is sent then. */
  blob(digest: string, bytes: Buffer): Promise<boolean>;
  manifest(digest: string, mediaType: string, bytes: Buffer): Promise<void>;
}

const pushAttempts = 6;
const firstPauseMs = 500;

/** Source: OCI distribution specification 1.1, Pushing blobs, Mounting a blob, Pushing manifests. */
function createRegistryPush({ server, repository, token }: PushTarget): RegistryPush {
  const base = `/v2/${repository}`;

  const send = async (path: string, init: RequestInit, bearer: string): Promise<Response> => {
    const headers = { ...init.headers, authorization: `Bearer ${bearer}` };
    const response = await askServer(server, path, { ...init, headers });
    if (!response.ok) throw await pushRefusal(response);
    await response.arrayBuffer();
    return response;
  };

  return {
    blob: (digest, bytes) =>
      inAttempts(token, async bearer => {
        // A mount from the repository itself marks the existing blob as used now.
        const mount = new URLSearchParams({ mount: digest, from: repository });
        const begun = await send(`${base}/blobs/uploads/?${mount}`, { method: 'POST' }, bearer);
        if (begun.status === 201) return false;
        const { pathname } = new URL(begun.headers.get('location') ?? base, server);
        const whole = new URLSearchParams({ digest });
        const headers = { 'content-type': 'application/octet-stream' };
        const body = new Uint8Array(bytes.buffer as ArrayBuffer, bytes.byteOffset, bytes.length);
        await send(`${pathname}?${whole}`, { method: 'PUT', headers, body }, bearer);
        return true;
      }),

    manifest: (digest, mediaType, bytes) =>
      inAttempts(token, async bearer => {
        const headers = { 'content-type': mediaType };
        const body = bytes.toString();
        await send(`${base}/manifests/${digest}`, { method: 'PUT', headers, body }, bearer);
      }),
  };
}

/** Repeats the whole work after a temporary failure. */
async function inAttempts<T>(
  token: PushTarget['token'],
  work: (bearer: string) => Promise<T>,
): Promise<T> {
  let isRefused = false;
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await work(await token(isRefused));
    } catch (error) {
      const status = error instanceof RefusedError ? error.status : undefined;
      const isUnreachable = error instanceof CommandError && status === undefined;
      const mayPass = isUnreachable || (status !== undefined && isPassing(status));
      if (attempt === pushAttempts || !mayPass) throw error;
      isRefused = status === 401;
      if (!isRefused) await sleep(firstPauseMs * 2 ** (attempt - 1));
    }
  }
}

function isPassing(status: number): boolean {
  return status >= 500 || [401, 408, 429].includes(status);
}

async function pushRefusal(response: Response): Promise<RefusedError> {
  const body = (await response.json().catch(() => undefined)) as
    | { readonly errors?: readonly { readonly message?: string }[] }
    | undefined;
  const message = body?.errors?.[0]?.message ?? `the server answered ${response.status}`;
  return new RefusedError(`The build context cannot be uploaded: ${message}`, response.status);
}
