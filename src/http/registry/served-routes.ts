import type { IncomingMessage, ServerResponse } from 'node:http';
import type { ParameterizedContext } from 'koa';
import { Fault } from '../../foundation/fault.ts';
import type { NoteBlob } from '../../foundation/telemetry/index.ts';
import { type Digest, isDigest } from '../../oci/digest.ts';
import type { Descriptor, Document } from '../../oci/index.ts';
import {
  type BlobFinder,
  blobOfBytes,
  type ImageFinder,
  listingOf,
  type ManifestFinder,
  type PulledImage,
  parsePullPath,
  type RangeOf,
  servedWith,
} from '../../pull/index.ts';
import type { ContainerRequest } from '../../request/index.ts';
import type { TokenRegistry } from '../../request/tokens/index.ts';
import type { ScanReferrers } from '../../scans/index.ts';
import type { RegistryClient } from '../../upstream/index.ts';
import type { NotePull } from '../callers/audit-notes.ts';
import { callerAddress } from '../client-address.ts';
import { type RequestState, stateOf } from '../request-state.ts';
import { sendOrder } from './blobs/order-message.ts';
import { type OfferedBlob, sendBlob } from './blobs/send-blob.ts';
import type { RegistryAuth } from './login/registry-auth.ts';
import type { PullMeter } from './pull-meter.ts';
import { sendDocument, sendJson, waitForBuild } from './registry-responses.ts';

/** Checks the right to an image. Throws a {@link Fault} below 500 when it has ended. */
type RepeatedCheck = () => Promise<unknown>;

export interface ServedDeps {
  readonly auth: Pick<RegistryAuth, 'admitPull'>;
  /** First path segment of served names. */
  readonly prefix: string;
  readonly tokens: Pick<TokenRegistry, 'get' | 'unrevoked'>;
  /** Returns true for the token of a builder or a scanner of this server: it needs no login, and no count. */
  readonly isLent: (token: string) => boolean;
  readonly findImage: ImageFinder;
  readonly findManifest: ManifestFinder;
  readonly blobs: BlobFinder;
  readonly registry: RegistryClient;
  /** Documents about scanned images; undefined on a server without a scanner. */
  readonly scanReferrers: ScanReferrers | undefined;
  readonly meter: PullMeter;
  readonly notePull: NotePull;
  readonly noteBlob: NoteBlob;
  readonly trustedProxies: number;
  /** How long the result of a check of rights is valid (ms). */
  readonly rightLifeMs: number;
  /** Returns the check of a right that is repeated while a blob is sent. Default: the same as at its beginning. */
  readonly repeatedCheck?: (request: IncomingMessage, check: RepeatedCheck) => RepeatedCheck;
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
  const isLent = deps.isLent(token);
  if (!isLent) await deps.auth.admitPull(req, `${deps.prefix}/${token}/${repository}`);
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
  if (kind === 'manifests') return sendManifest(deps, served, isLent);
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

async function sendManifest(deps: ServedDeps, served: Served, isLent: boolean): Promise<void> {
  const { meter } = deps;
  const { request, image, reference, req, res } = served;
  const find = async () =>
    (await scanManifest(deps, served)) ?? deps.findManifest(request, image, reference);
  if (isLent) return sendDocument(await find(), req, res);
  const client = callerAddress(req, deps.trustedProxies);
  const isCounted = meter.admit(client, request);
  const document = await find();
  if (!isCounted && req.method === 'GET') await meter.count(client, request);
  else if (!isCounted) await meter.check?.(client, request);
  const { image: named, label } = request;
  const name = `${named.registry}/${named.repository}`;
  deps.notePull(req, { name, reference, digest: document.digest, label });
  sendDocument(document, req, res, meter.headers(client, request));
}

async function sendBlobOf(deps: ServedDeps, served: Served): Promise<void> {
  const { blobs, tokens } = deps;
  const { request, image, req, res } = served;
  const digest = served.reference as Digest;
  const about = await scanBlob(deps, served);
  if (about) return sendBlob(offeredBytes(about), digest, req, res, deps.noteBlob);
  const takesOrder = stateOf(req).handedOn?.order !== undefined;
  const order = takesOrder ? await blobs.order(image, digest) : undefined;
  if (order) return sendOrder(order, res);
  // A transfer that began before its token expired may continue.
  const checkRight = async () => deps.findImage(await tokens.unrevoked(request.token));
  watchRight(res, deps.rightLifeMs, deps.repeatedCheck?.(req, checkRight) ?? checkRight);
  const offered = {
    isKnown: async () => (await image.member(digest)) !== undefined,
    size: (signal: AbortSignal) => blobs.head(image, digest, signal),
    open: (rangeOf: RangeOf | undefined, signal: AbortSignal) =>
      blobs.open(image, digest, rangeOf, signal),
  };
  return sendBlob(offered, digest, req, res, deps.noteBlob);
}

async function sendListing(deps: ServedDeps, served: Served, path: string): Promise<void> {
  const { request, image, req, res } = served;
  const url = new URL(req.url ?? '', 'http://localhost');
  const listing = await listingOf(deps.registry, request, image, path, url.search);
  const { contentType, next, isFiltered } = listing;
  const own = await scanEntries(deps, served, url.searchParams);
  const body = own.length === 0 ? listing.body : withEntries(listing.body, own);
  // The client sees the repository under the name that it requested.
  const name = url.pathname.slice('/v2/'.length, -`/${path}`.length);
  sendJson(res, 200, 'name' in body ? { ...body, name } : body, {
    'content-type': contentType,
    // The registry links a page below its own path; the client needs the path here.
    ...(next === undefined ? {} : { link: `<${url.pathname}?${next}>; rel="next"` }),
    ...(isFiltered ? { 'oci-filters-applied': 'artifactType' } : {}),
  });
}

/** Returns the id of the scan whose documents a client of this image may see. A builder or scanner sees the image alone. */
function scanOf({ request, image }: Served): string | undefined {
  return servedWith(image) === 'nothing' ? undefined : request.scan?.id;
}

/** Returns the manifest of a document about the scan of an image; undefined for other references. */
async function scanManifest(deps: ServedDeps, served: Served): Promise<Document | undefined> {
  const { image, reference } = served;
  const id = scanOf(served);
  if (id === undefined || !isDigest(reference) || (await image.member(reference))) return undefined;
  return deps.scanReferrers?.manifest(id, image.root, reference);
}

async function scanBlob(deps: ServedDeps, served: Served): Promise<Buffer | undefined> {
  const { image } = served;
  const digest = served.reference as Digest;
  const id = scanOf(served);
  if (id === undefined || (await image.member(digest))) return undefined;
  return deps.scanReferrers?.blob(id, image.root, digest);
}

/** Returns the entries for the first page of the referrers of an image. */
async function scanEntries(
  deps: ServedDeps,
  served: Served,
  query: URLSearchParams,
): Promise<readonly Descriptor[]> {
  const { image, reference } = served;
  const id = scanOf(served);
  // A page that a registry links to has more in its address.
  const isFirst = query.keys().every(name => name === 'artifactType');
  if (id === undefined || !isFirst) return [];
  const wanted = query.get('artifactType');
  const entries = (await deps.scanReferrers?.list(id, image.root, reference)) ?? [];
  return wanted === null ? entries : entries.filter(entry => entry.artifactType === wanted);
}

function withEntries(body: object, entries: readonly Descriptor[]): object {
  const { manifests } = body as { readonly manifests: readonly object[] };
  return { ...body, manifests: [...entries, ...manifests] };
}

function offeredBytes(bytes: Buffer): OfferedBlob {
  return {
    isKnown: async () => true,
    size: async () => bytes.length,
    open: async rangeOf => blobOfBytes(bytes, rangeOf),
  };
}

/**
 * Checks at intervals, while a response is being sent, whether its receiver still has the right to it. Ends the
 * connection when the right has ended. A registry that does not answer has not ended a right.
 *
 * @param checkRight throws a {@link Fault} below 500 when the right has ended
 */
export function watchRight(
  response: ServerResponse,
  everyMs: number,
  checkRight: RepeatedCheck,
): void {
  // A response closes once. The client may have left during an earlier step.
  if (response.closed) return;
  const timer = setInterval(() => {
    checkRight().catch(error => {
      if (!(error instanceof Fault) || error.kind === 'too-many-requests') return;
      if (error.status >= 500) return;
      clearInterval(timer);
      response.destroy();
    });
  }, everyMs);
  timer.unref();
  response.once('close', () => clearInterval(timer));
}
