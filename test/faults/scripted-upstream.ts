import { createHash } from 'node:crypto';
import { once } from 'node:events';
import {
  createServer,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type RequestListener,
  type ServerResponse,
} from 'node:http';
import { createServer as createSecureServer, type ServerOptions } from 'node:https';
import type { AddressInfo, Socket } from 'node:net';
import { gzipSync } from 'node:zlib';
import { digestOf } from '../../src/oci/digest.ts';

/** One request as it came in. */
export interface SeenRequest {
  readonly method: string;
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
}

/** Answers in place of the registry; `serve` returns the registry's own answer. */
export type Script = (
  request: IncomingMessage,
  response: ServerResponse,
  serve: () => void,
) => unknown;

export interface ScriptedImage {
  /** `host/repository:latest` */
  readonly name: string;
  readonly repository: string;
  readonly digest: string;
  readonly manifest: Buffer;
  readonly configDigest: string;
  readonly layers: readonly { readonly digest: string; readonly bytes: Buffer }[];
}

export interface ScriptedUpstream extends AsyncDisposable {
  /** `127.0.0.1:<port>` */
  readonly host: string;
  /** Every request so far, oldest first. */
  readonly requests: SeenRequest[];
  /** Open connections to it. */
  connections(): number;
  /** Returns the number of requests with this method whose path contains the text. */
  count(method: string, part: string): number;
  /** Stores an image of these layers under `<repository>:latest`. */
  image(repository: string, layers?: readonly Buffer[]): ScriptedImage;
  /** Stores a manifest or blob under a path below `/v2/`. */
  put(path: string, mediaType: string, bytes: Buffer): void;
  /** From now on, requests whose `METHOD path` contains the text go to the script; the latest script wins. */
  on(part: string, script: Script): void;
  /** Stops answering. */
  stop(): Promise<void>;
}

const manifestType = 'application/vnd.oci.image.manifest.v1+json';

/**
 * A registry with a few images on a free port of 127.0.0.1, with scripted behaviour that real registries do not have.
 * Optionally with TLS.
 */
export async function startScriptedUpstream(tls?: ServerOptions): Promise<ScriptedUpstream> {
  const contents = new Map<string, { mediaType: string; bytes: Buffer }>();
  const scripts: { part: string; script: Script }[] = [];
  const requests: SeenRequest[] = [];
  const sockets = new Set<Socket>();
  const listener: RequestListener = (request, response) => {
    const { method = '', url = '', headers } = request;
    requests.push({ method, path: url, headers });
    response.on('error', () => {});
    const serve = () => serveContent(contents, request, response);
    const found = scripts.findLast(({ part }) => `${method} ${url}`.includes(part));
    if (found) void found.script(request, response, serve);
    else serve();
  };
  // Never keeps a test file running after a failed test.
  const made = tls ? createSecureServer(tls, listener) : createServer(listener);
  const server = made.listen(0, '127.0.0.1').unref();
  server.on('connection', socket => {
    sockets.add(socket);
    socket.once('close', () => sockets.delete(socket));
  });
  await once(server, 'listening');
  const host = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  const put = (path: string, mediaType: string, bytes: Buffer) => {
    contents.set(`/v2/${path}`, { mediaType, bytes });
  };
  const stop = async () => {
    if (!server.listening) return;
    const closed = once(server, 'close');
    server.close();
    for (const socket of sockets) socket.destroy();
    await closed;
  };
  return {
    host,
    requests,
    connections: () => sockets.size,
    count: (method, part) =>
      requests.filter(seen => seen.method === method && seen.path.includes(part)).length,
    put,
    on: (part, script) => scripts.push({ part, script }),
    image: (repository, layers = [Buffer.from(`the layer of ${host}/${repository}`)]) =>
      addImage(host, put, repository, layers),
    stop,
    [Symbol.asyncDispose]: stop,
  };
}

/** A gzip file of an empty tar archive. */
export const emptyLayer = gzipSync(Buffer.alloc(1024));

/** Returns bytes that do not repeat, the same each time for one seed. */
export function pattern(length: number, seed: string): Buffer {
  const bytes = Buffer.alloc(length);
  let state = createHash('sha256').update(seed).digest().readUInt32LE(0);
  for (let at = 0; at + 4 <= length; at += 4) {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    bytes.writeUInt32LE(state, at);
  }
  return bytes;
}

/** The first byte that is asked for. */
export function rangeStart(request: IncomingMessage): number {
  return Number(/^bytes=(\d+)-/.exec(request.headers.range ?? '')?.[1] ?? 0);
}

function addImage(
  host: string,
  put: ScriptedUpstream['put'],
  repository: string,
  layers: readonly Buffer[],
): ScriptedImage {
  const described = layers.map(bytes => ({ digest: digestOf(bytes), bytes }));
  const config = Buffer.from(
    JSON.stringify({
      architecture: 'amd64',
      os: 'linux',
      // Each image is different, so that no test finds leftovers of another.
      config: { Env: ['PATH=/bin'], Cmd: ['sh'], Labels: { repository, host } },
      rootfs: { type: 'layers', diff_ids: described.map(({ digest }) => digest) },
    }),
  );
  const configDigest = digestOf(config);
  const manifest = Buffer.from(
    JSON.stringify({
      schemaVersion: 2,
      mediaType: manifestType,
      config: {
        mediaType: 'application/vnd.oci.image.config.v1+json',
        digest: configDigest,
        size: config.length,
      },
      layers: described.map(({ digest, bytes }) => ({
        mediaType: 'application/vnd.oci.image.layer.v1.tar+gzip',
        digest,
        size: bytes.length,
      })),
    }),
  );
  const digest = digestOf(manifest);
  put(`${repository}/manifests/latest`, manifestType, manifest);
  put(`${repository}/manifests/${digest}`, manifestType, manifest);
  put(`${repository}/blobs/${configDigest}`, 'application/octet-stream', config);
  for (const { digest: layer, bytes } of described) {
    put(`${repository}/blobs/${layer}`, 'application/octet-stream', bytes);
  }
  return {
    ...{ name: `${host}/${repository}:latest`, repository, digest, manifest, configDigest },
    layers: described,
  };
}

function serveContent(
  contents: ReadonlyMap<string, { mediaType: string; bytes: Buffer }>,
  request: IncomingMessage,
  response: ServerResponse,
): void {
  const [path = ''] = (request.url ?? '').split('?');
  const found = contents.get(path);
  if (!found) {
    response.writeHead(404, { 'content-type': 'application/json' });
    response.end('{"errors":[{"code":"NAME_UNKNOWN","message":"not here"}]}');
    return;
  }
  const { mediaType, bytes } = found;
  const [, from, to] = /^bytes=(\d+)-(\d*)$/.exec(request.headers.range ?? '') ?? [];
  const start = Number(from ?? 0);
  const end = to ? Number(to) : bytes.length - 1;
  response.writeHead(from === undefined ? 200 : 206, {
    'content-type': mediaType,
    'docker-content-digest': digestOf(bytes),
    'content-length': end - start + 1,
    ...(from === undefined ? {} : { 'content-range': `bytes ${start}-${end}/${bytes.length}` }),
  });
  response.end(request.method === 'HEAD' ? undefined : bytes.subarray(start, end + 1));
}
