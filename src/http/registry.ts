import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Middleware } from 'koa';
import { Fault } from '../fault.ts';
import type { Digest } from '../oci/digest.ts';
import { manifestType } from '../oci/manifest.ts';
import type { BlobFinder } from '../pull/blob.ts';
import type { ImageFinder, PulledImage } from '../pull/image.ts';
import type { ManifestFinder } from '../pull/manifest.ts';
import { type PullPath, parsePullPath } from '../pull/path.ts';
import type { ContainerRequest } from '../request/container-request.ts';
import type { TokenRegistry } from '../request/token-registry.ts';
import type { RegistryClient } from '../upstream/registry-client.ts';
import { callerAddress } from './caller.ts';
import type { PullMeter } from './pull-meter.ts';
import {
  apiVersionHeader,
  contentHeaders,
  isUnmodified,
  sendUnmodified,
} from './registry-headers.ts';
import { sendBlob } from './send-blob.ts';
import type { RequestState } from './state.ts';

export interface RegistryDeps {
  readonly prefix: string;
  readonly tokens: TokenRegistry;
  readonly findImage: ImageFinder;
  readonly findManifest: ManifestFinder;
  readonly blobs: BlobFinder;
  readonly registry: RegistryClient;
  readonly meter: PullMeter;
  readonly trustedProxies: number;
}

/**
 * The pull routes of served names below `/v2/`. They write their answers themselves: headers must be
 * exact to the byte, and a broken transfer must never look complete.
 * Source: OCI distribution specification 1.1, Pull and Content Discovery.
 */
export function registryRoutes(deps: RegistryDeps): Middleware<RequestState> {
  const servedPath = `/v2/${deps.prefix}/`;
  return async (ctx, next) => {
    const { path } = ctx;
    if (!path.startsWith('/v2/') && path !== '/v2') return next();
    if (ctx.method !== 'GET' && ctx.method !== 'HEAD') {
      throw new Fault(
        'method-not-allowed',
        `${ctx.method} is not possible here: names can be pulled only`,
        {
          phase: 'request',
          headers: { allow: 'GET, HEAD' },
        },
      );
    }
    ctx.respond = false;
    if (path === '/v2/' || path === '/v2') return sendPing(ctx.res);
    if (!path.startsWith(servedPath)) {
      throw new Fault('not-found', `No such repository: served names begin with ${deps.prefix}/`, {
        phase: 'request',
      });
    }
    const pull = parsePullPath(path.slice(servedPath.length));
    const request = deps.tokens.get(pull.token);
    ctx.state.token = request.label;
    if (pull.repository !== request.image.repository) {
      throw new Fault(
        'not-found',
        `This container token stands for ${request.image.repository}, not for ${pull.repository}`,
        { phase: 'request' },
      );
    }
    const image = await deps.findImage(request);
    await send(deps, pull, request, image, ctx.req, ctx.res);
  };
}

function send(
  deps: RegistryDeps,
  pull: PullPath,
  request: ContainerRequest,
  image: PulledImage,
  req: IncomingMessage,
  res: ServerResponse,
): Promise<void> {
  switch (pull.kind) {
    case 'manifests':
      return sendManifest(deps, pull.reference, request, image, req, res);
    case 'blobs':
      return sendBlob(deps.blobs, image, pull.reference as Digest, req, res);
    case 'tags':
      return sendJson(deps, image, 'tags/list', req, res);
    case 'referrers':
      return sendJson(deps, image, `referrers/${pull.reference}`, req, res);
  }
}

function sendPing(res: ServerResponse): void {
  res.writeHead(200, {
    'content-type': 'application/json',
    'content-length': '2',
    ...apiVersionHeader,
  });
  res.end('{}');
}

// As a string an answer goes out in one write with its head, as a buffer in a write of its own.
const singleWriteBytes = 16 * 1024;

async function sendManifest(
  deps: RegistryDeps,
  reference: string,
  request: ContainerRequest,
  image: PulledImage,
  req: IncomingMessage,
  res: ServerResponse,
): Promise<void> {
  const client = callerAddress(req, deps.trustedProxies);
  deps.meter.admit(client, request);
  const document = await deps.findManifest(request, image, reference);
  if (req.method === 'GET') deps.meter.count(client, request);
  if (isUnmodified(req, document.digest)) return sendUnmodified(res, document.digest);
  const { digest, bytes } = document;
  res.writeHead(200, {
    ...contentHeaders(digest, manifestType(document), bytes.length),
    ...deps.meter.headers(client, request),
  });
  if (req.method === 'HEAD') res.end();
  else if (bytes.length <= singleWriteBytes) res.end(bytes.toString('latin1'), 'latin1');
  else res.end(bytes);
}

// What a client may learn from the headers of a listing: the next page, and whether it was filtered.
const listingHeaders = ['content-type', 'oci-filters-applied'];

async function sendJson(
  deps: RegistryDeps,
  image: PulledImage,
  path: string,
  req: IncomingMessage,
  res: ServerResponse,
): Promise<void> {
  const url = new URL(req.url ?? '', 'http://localhost');
  const answer = await deps.registry.getJson(image.access, path, url.search);
  const headers: Record<string, string> = { ...apiVersionHeader };
  for (const name of listingHeaders) {
    const value = answer.headers.get(name);
    if (value !== undefined) headers[name] = value;
  }
  const link = nextPage(answer.headers.get('link'), url.pathname);
  if (link) headers.link = link;
  const body = path === 'tags/list' ? ownName(answer.body, url.pathname) : answer.body;
  headers['content-length'] = String(body.length);
  res.writeHead(answer.status, headers);
  res.end(req.method === 'HEAD' ? undefined : body);
}

/** The `Link` of the registry points to its own path: the next page here is below the served name. */
function nextPage(link: string | undefined, pathname: string): string | undefined {
  const query = /<[^>]*(\?[^>]*)>\s*;\s*rel="?next"?/i.exec(link ?? '')?.[1];
  return query === undefined ? undefined : `<${pathname}${query}>; rel="next"`;
}

/** The listing names the repository by the name it was asked under. */
function ownName(body: Buffer, pathname: string): Buffer {
  try {
    const listing = JSON.parse(body.toString('utf8'));
    const name = pathname.slice('/v2/'.length, -'/tags/list'.length);
    return Buffer.from(JSON.stringify({ ...listing, name }));
  } catch {
    return body;
  }
}
