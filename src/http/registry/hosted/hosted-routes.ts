import type { IncomingMessage, ServerResponse } from 'node:http';
import { Fault } from '../../../foundation/fault.ts';
import type { NoteBlob } from '../../../foundation/telemetry/index.ts';
import type { Action, Rights } from '../../../hosted/accounts/index.ts';
import {
  type HostedBlobs,
  type HostedListings,
  type HostedManifests,
  type Listing,
  listingHeaders,
  type Uploads,
} from '../../../hosted/index.ts';
import { type Digest, isDigest } from '../../../oci/digest.ts';
import type { Document } from '../../../oci/index.ts';
import { isRepository, isTag } from '../../../oci/naming.ts';
import {
  type AwaitBuild,
  checkReference,
  decodeSegment,
  keptBlob,
  orderStored,
  type RangeOf,
} from '../../../pull/index.ts';
import type { ContentStore } from '../../../storage/content/index.ts';
import { readBody } from '../../bodies/read-body.ts';
import type { NotePull, RecordAudit } from '../../callers/audit-notes.ts';
import { callerAddress } from '../../client-address.ts';
import { clientSignal, stateOf } from '../../request-state.ts';
import { queryOf } from '../../request-target.ts';
import { wrongMethod } from '../../route/router.ts';
import { sendOrder } from '../blobs/order-message.ts';
import { sendBlob } from '../blobs/send-blob.ts';
import type { RegistryAuth } from '../login/registry-auth.ts';
import { apiVersionHeader, sendDocument, sendJson, waitForBuild } from '../registry-responses.ts';
import type { CountHostedPull } from './hosted-pulls.ts';
import { sendUpload } from './upload-routes.ts';

export interface HostedDeps {
  readonly auth: RegistryAuth;
  readonly recordAudit: RecordAudit;
  readonly content: ContentStore;
  readonly manifests: HostedManifests;
  readonly blobs: HostedBlobs;
  readonly listings: HostedListings;
  readonly uploads: Uploads;
  readonly countPull: CountHostedPull;
  readonly notePull: NotePull;
  readonly noteBlob: NoteBlob;
  readonly awaitBuild: AwaitBuild;
  readonly trustedProxies: number;
  /** Returns stored content for a client. Default: what the store offers. */
  readonly keptBlob?: typeof keptBlob;
  /** The host in names of hosted images. */
  readonly host: string;
}

// The minimum that every registry accepts. Source: OCI distribution specification 1.1, Pushing Manifests.
const maxManifestBytes = 4 * 1024 * 1024;
const maxTags = 100;

/**
 * Answers the routes of hosted repositories; `path` is the part after `/v2/`. Checks rights before
 * everything else: a caller without rights learns nothing, not even whether the repository exists.
 * Source: OCI distribution specification 1.1, Pull, Push, Content Discovery and Content Management.
 */
export async function sendHosted(
  deps: HostedDeps,
  path: string,
  req: IncomingMessage,
  res: ServerResponse,
): Promise<void> {
  const asked = parseHostedPath(path);
  const action = actionOf(asked, req.method ?? '');
  const from = asked.kind === 'uploads' ? queryOf(req).get('from') : null;
  const mountedFrom = from !== null && isRepository(from) ? from : undefined;
  const rights = await deps.auth.admit(req, asked.repository, action, mountedFrom);
  if (asked.kind === 'uploads') {
    const { account, user } = stateOf(req).who ?? {};
    // The tokens of builders and of build contexts belong to no account.
    const owner = account ?? user ?? asked.repository;
    return sendUpload(deps.uploads, deps.blobs, { rights, owner }, asked, req, res);
  }
  if (action === 'delete') return removeContent(deps, asked, req, res);
  if (action === 'push') return putManifest(deps, asked, req, res);
  return sendContent(deps, asked, rights, req, res);
}

/** Sends the names of the repositories that the caller may pull. */
export async function sendCatalog(
  { auth, listings }: Pick<HostedDeps, 'auth' | 'listings'>,
  req: IncomingMessage,
  res: ServerResponse,
): Promise<void> {
  const rights = await auth.admitList(req);
  return sendListing(await listings.catalog(rights, queryOf(req)), req, res);
}

type ContentPath = Exclude<HostedPath, { kind: 'uploads' }>;

const contentActions: Readonly<Record<HostedPath['kind'], Readonly<Record<string, Action>>>> = {
  manifests: { GET: 'pull', HEAD: 'pull', PUT: 'push', DELETE: 'delete' },
  blobs: { GET: 'pull', HEAD: 'pull', DELETE: 'delete' },
  tags: { GET: 'pull', HEAD: 'pull' },
  referrers: { GET: 'pull', HEAD: 'pull' },
  uploads: { GET: 'push', POST: 'push', PATCH: 'push', PUT: 'push', DELETE: 'push' },
};

function actionOf({ kind }: HostedPath, method: string): Action {
  const action = contentActions[kind][method];
  if (action) return action;
  throw wrongMethod(method, Object.keys(contentActions[kind]));
}

async function sendContent(
  deps: HostedDeps,
  { kind, repository, reference }: ContentPath,
  rights: Rights,
  req: IncomingMessage,
  res: ServerResponse,
): Promise<void> {
  const query = queryOf(req);
  switch (kind) {
    case 'manifests': {
      // A builder looks for its own image before it pushes it: whoever may push does not wait.
      const mayWait = !isDigest(reference) && !rights(repository).includes('push');
      const get = () => deps.manifests.get(repository, reference);
      const find = mayWait ? () => getBuilt(deps, repository, reference) : get;
      const document = await waitForBuild(find, req, res);
      if (!document) return;
      const { digest } = document;
      const client = callerAddress(req, deps.trustedProxies);
      const isHead = req.method === 'HEAD';
      deps.countPull({ client, isHead, repository, reference, digest });
      deps.notePull(req, { name: repository, reference, digest });
      return sendDocument(document, req, res);
    }
    case 'blobs':
      return sendBlobOf(deps, repository, reference as Digest, req, res);
    case 'tags':
      return sendListing(await deps.listings.tags(repository, query), req, res);
    case 'referrers':
      return sendListing(
        await deps.listings.referrers(repository, reference as Digest, query),
        req,
        res,
      );
  }
}

/** Returns the manifest under a tag. Waits for a build that pushes it. */
async function getBuilt(
  { manifests, awaitBuild, host }: HostedDeps,
  repository: string,
  tag: string,
): Promise<Document> {
  try {
    return await manifests.get(repository, tag);
  } catch (error) {
    const isMissing = error instanceof Fault && error.kind === 'manifest-unknown';
    if (!isMissing || !(await awaitBuild(`${host}/${repository}:${tag}`))) throw error;
    return manifests.get(repository, tag);
  }
}

async function sendBlobOf(
  { blobs, content, noteBlob, keptBlob: kept = keptBlob }: HostedDeps,
  repository: string,
  digest: Digest,
  req: IncomingMessage,
  res: ServerResponse,
): Promise<void> {
  let size: Promise<number> | undefined;
  const sizeOf = () => (size ??= blobs.size(repository, digest));
  // A transfer that has begun may end, as in this server: its right is not watched.
  const takesOrder = stateOf(req).handedOn?.order !== undefined;
  const order = takesOrder ? orderStored(content, digest, await sizeOf(), false) : undefined;
  if (order) return sendOrder(order, res);
  const offered = {
    isKnown: async () => (await sizeOf()) >= 0,
    size: sizeOf,
    open: async (rangeOf: RangeOf | undefined) => kept(content, digest, await sizeOf(), rangeOf),
  };
  return sendBlob(offered, digest, req, res, noteBlob);
}

function sendListing(listing: Listing, req: IncomingMessage, res: ServerResponse): void {
  const { pathname } = new URL(req.url ?? '', 'http://localhost');
  sendJson(res, 200, listing.body, Object.fromEntries(listingHeaders(listing, pathname)));
}

async function putManifest(
  { manifests, recordAudit }: HostedDeps,
  { repository, reference }: ContentPath,
  req: IncomingMessage,
  res: ServerResponse,
): Promise<void> {
  const bytes = await readBody(req, maxManifestBytes);
  if (!bytes) {
    throw new Fault(
      'too-large',
      `The manifest is larger than the ${maxManifestBytes} bytes allowed: move large data into a blob`,
      { phase: 'push', headers: { connection: 'close' } },
    );
  }
  const byDigest = isDigest(reference);
  // A push by digest may set several tags.
  // Source: OCI distribution specification, main branch, Pushing Manifests with Tags.
  const named = queryOf(req).getAll('tag');
  const tags = byDigest ? named : [reference];
  checkTags(tags);
  const { digest, subject } = await manifests.put(repository, {
    bytes,
    contentType: req.headers['content-type'],
    digest: byDigest ? reference : undefined,
    tags,
    // A balancer may have sent it again: it must not take effect after one that was acknowledged meanwhile.
    signal: clientSignal(res),
  });
  const name = tags.length > 0 ? `${repository}:${tags.join(',')} ` : `${repository} `;
  recordAudit(req, 'manifest.push', `${name}${digest}`);
  res.writeHead(201, {
    ...apiVersionHeader,
    location: `/v2/${repository}/manifests/${digest}`,
    'docker-content-digest': digest,
    ...(subject === undefined ? {} : { 'oci-subject': subject }),
    ...(byDigest && tags.length > 0 ? { 'oci-tag': tags } : {}),
    'content-length': '0',
  });
  res.end();
}

function checkTags(tags: readonly string[]): void {
  const wrong = tags.find(tag => !isTag(tag));
  if (wrong !== undefined || tags.length > maxTags) {
    throw new Fault(
      'bad-request',
      wrong === undefined
        ? `More than ${maxTags} tags at once`
        : `'${wrong.slice(0, 60)}' is not a tag`,
      { phase: 'request' },
    );
  }
}

async function removeContent(
  { manifests, blobs, recordAudit }: HostedDeps,
  { kind, repository, reference }: ContentPath,
  req: IncomingMessage,
  res: ServerResponse,
): Promise<void> {
  const gone = clientSignal(res);
  if (kind === 'blobs') await blobs.remove(repository, reference as Digest, gone);
  else await manifests.remove(repository, reference, gone);
  recordAudit(
    req,
    `${kind === 'blobs' ? 'blob' : 'manifest'}.delete`,
    `${repository} ${reference}`,
  );
  res.writeHead(202, { ...apiVersionHeader, 'content-length': '0' });
  res.end();
}

/** The target of a request to a hosted repository. Source: OCI distribution specification 1.1, Endpoints. */
type HostedPath =
  | {
      readonly kind: 'manifests' | 'blobs' | 'tags' | 'referrers';
      readonly repository: string;
      readonly reference: string;
    }
  | {
      readonly kind: 'uploads';
      readonly repository: string;
      /** Id of the upload; undefined in the request that begins one. */
      readonly upload: string | undefined;
    };

const uploadPath = /^(.+)\/blobs\/uploads(?:\/([^/]*))?$/;
const contentPath = /^(.+)\/(manifests|blobs|tags|referrers)\/([^/]+)$/;

/** Reads the path behind `/v2/`, without its query. Throws {@link Fault}. */
function parseHostedPath(path: string): HostedPath {
  const [, uploadRepository, upload] = uploadPath.exec(path) ?? [];
  if (uploadRepository !== undefined) {
    return {
      kind: 'uploads',
      repository: checkedRepository(uploadRepository),
      upload: upload || undefined,
    };
  }
  const [, repository, kind, segment = ''] = contentPath.exec(path) ?? [];
  if (repository === undefined || kind === undefined) {
    throw new Fault(
      'not-found',
      'No such route: below a repository there are /manifests, /blobs, /blobs/uploads, /tags/list and /referrers',
      { phase: 'request' },
    );
  }
  const reference = decodeSegment(segment);
  checkReference(kind, reference);
  return {
    kind: kind as 'manifests' | 'blobs' | 'tags' | 'referrers',
    repository: checkedRepository(repository),
    reference,
  };
}

function checkedRepository(name: string): string {
  if (isRepository(name)) return name;
  throw new Fault(
    'name-invalid',
    'This is not a valid repository name: use lower-case letters, digits and single separators . _ - between slashes',
    { phase: 'request' },
  );
}
