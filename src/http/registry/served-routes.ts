import type { IncomingMessage, ServerResponse } from 'node:http';
import type { ParameterizedContext } from 'koa';
import { Fault } from '../../foundation/fault.ts';
import type { NoteBlob } from '../../foundation/telemetry/index.ts';
import type { Digest } from '../../oci/digest.ts';
import {
  type BlobFinder,
  type ImageFinder,
  listingOf,
  type ManifestFinder,
  type PulledImage,
  parsePullPath,
  type RangeOf,
} from '../../pull/index.ts';
import type { ContainerRequest } from '../../request/index.ts';
import type { TokenRegistry } from '../../request/tokens/index.ts';
import type { RegistryClient } from '../../upstream/index.ts';
import type { NotePull } from '../callers/audit-notes.ts';
import { callerAddress } from '../callers/client-address.ts';
import { type RequestState, stateOf } from '../request-state.ts';
import { sendBlob } from './blobs/send-blob.ts';
import { sendOrder } from './blobs/send-order.ts';
import type { RegistryAuth } from './login/registry-auth.ts';
import type { PullMeter } from './pull-meter.ts';
import { sendDocument, sendJson, waitForBuild } from './registry-responses.ts';
import { watchRight } from './watch-right.ts';

export interface ServedDeps {
  readonly auth: Pick<RegistryAuth, 'admitPull'>;
  /** First path segment of served names. */
  readonly prefix: string;
  readonly tokens: Pick<TokenRegistry, 'get' | 'unrevoked'>;
  /** Returns true for the token of a builder, which pulls base images of one build: it needs no login, and no count. */
  readonly isOfBuilder: (token: string) => boolean;
  readonly findImage: ImageFinder;
  readonly findManifest: ManifestFinder;
  readonly blobs: BlobFinder;
  readonly registry: RegistryClient;
  readonly meter: PullMeter;
  readonly notePull: NotePull;
  readonly noteBlob: NoteBlob;
  readonly trustedProxies: number;
  /** How long the result of a check of rights is valid (ms). */
  readonly rightLifeMs: number;
}

/**
 * Answers the pull routes of served names; `path` is the part after `/v2/<prefix>/`. Its token
 * gives the right to pull, whatever `Authorization` says, unless the operator requires a login too.
 * Source: OCI distribution specification 1.1, Pull and Content Discovery.
 */
export async function sendServed(
  deps: ServedDeps,
  path: string,
  { req, res, method, state }: ParameterizedContext<RequestState>,
): Promise<void> {
  if (method !== 'GET' && method !== 'HEAD') {
    throw new Fault(
      'method-not-allowed',
      `${method} is not allowed here: served names can only be pulled`,
      { phase: 'request', headers: { allow: 'GET, HEAD' } },
    );
  }
  const { token, repository, kind, reference } = parsePullPath(path);
  const isOfBuilder = deps.isOfBuilder(token);
  if (!isOfBuilder) await deps.auth.admitPull(req, `${deps.prefix}/${token}/${repository}`);
  const find = state.handedOn?.order === 'look' ? deps.tokens.unrevoked : deps.tokens.get;
  const request = await find(token);
  state.token = request.label;
  if (request.isFrozen) {
    throw new Fault('not-found', `This image is frozen: pull it as ${request.targetImage}`, {
      phase: 'request',
    });
  }
  if (repository !== request.image.repository) {
    throw new Fault(
      'not-found',
      `This container token stands for ${request.image.repository}, not for ${repository}: check the image name`,
      { phase: 'request' },
    );
  }
  const image = await waitForBuild(() => deps.findImage(request), req, res);
  if (!image) return;
  const served = { request, image, reference, req, res };
  if (kind === 'manifests') return sendManifest(deps, served, isOfBuilder);
  if (kind === 'blobs') return sendBlobOf(deps, served);
  const listing = kind === 'tags' ? 'tags/list' : `referrers/${reference}`;
  return sendListing(deps, served, listing);
}

/** A request for a part of a served image, from a caller with the right to it. */
interface Served {
  readonly request: ContainerRequest;
  readonly image: PulledImage;
  readonly reference: string;
  readonly req: IncomingMessage;
  readonly res: ServerResponse;
}

async function sendManifest(
  deps: ServedDeps,
  { request, image, reference, req, res }: Served,
  isOfBuilder: boolean,
): Promise<void> {
  const { meter, findManifest } = deps;
  if (isOfBuilder) return sendDocument(await findManifest(request, image, reference), req, res);
  const client = callerAddress(req, deps.trustedProxies);
  const isCounted = meter.admit(client, request);
  const document = await findManifest(request, image, reference);
  if (req.method === 'GET' && !isCounted) meter.count(client, request);
  const { image: named, label } = request;
  const name = `${named.registry}/${named.repository}`;
  deps.notePull(req, { name, reference, digest: document.digest, label });
  sendDocument(document, req, res, meter.headers(client, request));
}

async function sendBlobOf(
  deps: ServedDeps,
  { request, image, reference, req, res }: Served,
): Promise<void> {
  const { blobs, tokens } = deps;
  const digest = reference as Digest;
  const takesOrder = stateOf(req).handedOn?.order !== undefined;
  const order = takesOrder ? await blobs.order(image, digest) : undefined;
  if (order) return sendOrder(order, res);
  // A transfer that began before its token expired may continue.
  const look = async () => deps.findImage(await tokens.unrevoked(request.token));
  watchRight(res, deps.rightLifeMs, look);
  const offered = {
    isKnown: async () => (await image.member(digest)) !== undefined,
    size: (signal: AbortSignal) => blobs.head(image, digest, signal),
    open: (rangeOf: RangeOf | undefined, signal: AbortSignal) =>
      blobs.open(image, digest, rangeOf, signal),
  };
  return sendBlob(offered, digest, req, res, deps.noteBlob);
}

async function sendListing(
  deps: ServedDeps,
  { request, image, req, res }: Served,
  path: string,
): Promise<void> {
  const url = new URL(req.url ?? '', 'http://localhost');
  const listing = await listingOf(deps.registry, request, image, path, url.search);
  const { contentType, body, next, isFiltered } = listing;
  // The client sees the repository under the name that it requested.
  const name = url.pathname.slice('/v2/'.length, -`/${path}`.length);
  sendJson(res, 200, 'name' in body ? { ...body, name } : body, {
    'content-type': contentType,
    // The registry links a page below its own path; the client needs the path here.
    ...(next === undefined ? {} : { link: `<${url.pathname}?${next}>; rel="next"` }),
    ...(isFiltered ? { 'oci-filters-applied': 'artifactType' } : {}),
  });
}
