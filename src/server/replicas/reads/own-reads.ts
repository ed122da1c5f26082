import type { IncomingMessage } from 'node:http';
import { join } from 'node:path';
import type { Middleware, ParameterizedContext } from 'koa';
import { accessInOwnRight, readBuild } from '../../../builds/index.ts';
import { Fault } from '../../../foundation/fault.ts';
import { noTally } from '../../../foundation/telemetry/counted.ts';
import { noRemoteHealth, type ReadReplicaState } from '../../../foundation/telemetry/index.ts';
import { readVersion } from '../../../foundation/version.ts';
import { atMost, rememberSuccess } from '../../../foundation/work.ts';
import { isStatusPath, statusApi } from '../../../http/api/index.ts';
import { handedOnHeaders, type RequestState } from '../../../http/index.ts';
import {
  createRegistryAuth,
  readPullReplies,
  registryRoutes,
  tokenPath,
} from '../../../http/registry/index.ts';
import {
  createDocuments,
  createImageMaker,
  createRightWatch,
  rightGraceMs,
} from '../../../images/index.ts';
import type { Digest } from '../../../oci/digest.ts';
import { mediaTypes } from '../../../oci/media-type.ts';
import {
  type BlobCache,
  type BlobFinder,
  createBlobFinder,
  createCheckRight,
  createImageFinder,
  createManifestFinder,
  type FoundBlob,
  keptBlob,
  type PulledImage,
} from '../../../pull/index.ts';
import { type ContainerRequest, createFindServed } from '../../../request/index.ts';
import { createTokenReader, type TokenReader } from '../../../request/tokens/index.ts';
import { mustScan, readEndedScan, refusalOf, type ScanPolicy } from '../../../scans/index.ts';
import { begun } from '../../../storage/content/byte-source.ts';
import { SlabPool } from '../../../storage/content/index.ts';
import { readKeyFile } from '../../../storage/directory/index.ts';
import {
  type BuildStore,
  openReadRows,
  openSecretBox,
  type Rows,
} from '../../../storage/rows/index.ts';
import type { Access, RegistryClient } from '../../../upstream/index.ts';
import { createPeople } from '../../assembly/people.ts';
import { createRegistries, type UpstreamDeps } from '../../assembly/registry-clients.ts';
import { readReplicaOf } from '../../assembly/server-state.ts';
import { keyDirectory } from '../../config/index.ts';
import { accessRules, configuredPlaces, configuredScanner } from '../../config/read/index.ts';
import type { HandOn } from '../hand-on.ts';
import type { OrderedBlobs } from '../ordered-blobs.ts';
import { LeaderOnly, leaderOnly } from './leader-only.ts';
import { createPullReporter, type PullReporter } from './pull-reporter.ts';
import { createReadContent } from './read-content.ts';

/** Answers pulls, and the state of requests and builds, from the rows and the content of the site, in place of the leader. */
export interface OwnReads {
  /**
   * Answers the request, or returns false, without any effect, for one that only the leader can answer.
   *
   * @throws {@link Fault} for a client without a login, which needs one
   */
  answers(ctx: ParameterizedContext<RequestState>): Promise<boolean>;
  /** Notes what the database said last: true when its rows have the schema of this version. */
  noteReadable(isReadable: boolean): void;
  /** Returns how a read replica of the database is used. */
  readReplica(): ReadReplicaState | undefined;
  /** Leaves all requests to the leader, or not any more. */
  hinder(isHindered: boolean): void;
  /** Sends the leader what it has to count, and closes all parts. This replica leads from now on, or stops. */
  close(): Promise<void>;
}

interface OwnReadsDeps extends UpstreamDeps {
  readonly blobs: OrderedBlobs;
  readonly handOn: Pick<HandOn, 'checkRight' | 'tell'>;
}

// What the leader acknowledged holds here within two seconds, also after a change of the schema.
const heardMs = 2000;
// After a failure of the database or the store, the leader answers for so long: each attempt may wait.
const restMs = 1000;
const tellMs = 2000;
const flushMs = 5000;
const accountsMs = 1000;
const renewMs = 3_600_000;

export function createOwnReads(deps: OwnReadsDeps): OwnReads {
  const { config, log, handOn } = deps;
  // The leader writes the entries of this log.
  const isAudited = config.audit.pulls === 'on';
  let heardAt = Number.NEGATIVE_INFINITY;
  let restUntil = Number.NEGATIVE_INFINITY;
  let isHindered = false;
  let isClosed = false;
  let opened: Opened | undefined;
  const isCurrent = () => performance.now() - heardAt < heardMs && !isHindered && !isClosed;
  const reporter = createPullReporter({
    rates: config.limits.pulls,
    async send(pulls) {
      const body = await handOn.tell(handedOnHeaders.pulls, JSON.stringify(pulls), tellMs);
      return body && readPullReplies(body, pulls.length);
    },
  });
  const reads = rememberSuccess(() =>
    openReads(deps, reporter, isCurrent).catch(error => {
      restUntil = performance.now() + restMs;
      throw error;
    }),
  );

  return {
    async answers(ctx) {
      const { req, res } = ctx;
      if (!isCurrent() || performance.now() < restUntil) return false;
      if (!isCovered(req, ctx.path, isAudited) || !reporter.hasRoom()) return false;
      try {
        opened = await reads.get();
        const { routes, states } = opened;
        const respond = isStatusPath(ctx.path) ? states : routes;
        await respond(ctx, leaderOnly('no replica answers it'));
        return true;
      } catch (error) {
        if (res.headersSent || res.closed) throw error;
        // Nobody needs the leader to know that a login is missing.
        const hasLogin = req.headers.authorization !== undefined;
        if (error instanceof Fault && error.kind === 'unauthorized' && !hasLogin) throw error;
        if (error instanceof Fault && error.kind === 'unavailable' && error.phase === 'store') {
          restUntil = performance.now() + restMs;
        }
        const isExpected = error instanceof Fault || error instanceof LeaderOnly;
        log[isExpected ? 'debug' : 'warn']({ err: error }, 'the leader answers this request');
        ctx.respond = true;
        return false;
      }
    },
    noteReadable(isReadable) {
      heardAt = isReadable ? performance.now() : Number.NEGATIVE_INFINITY;
      if (isCurrent()) reporter.greet();
    },
    hinder(isNow) {
      isHindered = isNow;
    },
    readReplica: () => opened?.readReplica?.(),
    async close() {
      isClosed = true;
      // A leader that answers slowly must not hold up the stop.
      await atMost(flushMs, reporter.flush());
      reporter.close();
      await (await reads.begun()?.catch(() => undefined))?.close();
      opened = undefined;
    },
  };
}

/** Returns true for a request that this replica may answer, as far as the request alone says. */
function isCovered(
  { method, headers }: IncomingMessage,
  path: string,
  isAudited: boolean,
): boolean {
  if (method !== 'GET' && method !== 'HEAD') return false;
  const isPull = path === '/v2' || path.startsWith('/v2/');
  if (isPull ? isAudited : !isStatusPath(path)) return false;
  // The leader answers browsers, with the headers of `cors.origins`.
  return headers.origin === undefined && headers['sec-fetch-site'] === undefined;
}

interface Opened extends Pick<Rows, 'readReplica'> {
  /** Routes of registries. */
  readonly routes: Middleware<RequestState>;
  /** Routes of the state of requests, builds, copies and scans. */
  readonly states: Middleware<RequestState>;
  /** May be called again. */
  close(): Promise<void>;
}

async function openReads(
  deps: OwnReadsDeps,
  reporter: PullReporter,
  isCurrent: () => boolean,
): Promise<Opened> {
  const { config, publicUrl, log, blobs, handOn } = deps;
  await using parts = new AsyncDisposableStack();
  const readRows = await openReadRows(config.database, readReplicaOf(deps));
  parts.defer(() => readRows.end());
  const rows = {
    ...readRows,
    isCurrent: () => false,
    requireChanges() {},
    hasSuccessor: () => false,
  };
  const version = readVersion();
  const reader = await blobs.content();
  const content = createReadContent(reader);
  const keys = keyDirectory(config);
  const remotes = noRemoteHealth;
  const registries = createRegistries(
    { ...deps, version },
    {
      content,
      slabs: new SlabPool(),
      hosted: rows.hosted,
      keptUploads: [],
      rows,
      signingKey: readKeyFile(join(keys, 'registry-token.key')),
      remotes,
      // The leader notes the changes of accounts.
      audit: { add() {} },
    },
  );
  parts.defer(() => registries.transport.close());
  parts.defer(() => registries.layerTransport.close());
  const { ownHost, modeOf, hosted, accountFiles } = registries;
  const confirmed = new WeakSet<Access>();
  const registry = withoutConfirmed(registries.registry, confirmed);
  const secrets = openSecretBox(keys);
  const places = configuredPlaces(config, publicUrl);
  const { identities } = createPeople(
    { ...deps, version },
    { rows, secrets, remotes },
    registries,
    places,
  );
  const documents = createDocuments(content, registry, renewMs, unlimitedShare);
  const rights = createRightWatch({
    registry,
    ownHost,
    lifeMs: config.rightLife,
    graceMs: rightGraceMs,
  });
  const { pulls } = accessRules(config, publicUrl);
  const reading = createTokenReader(rows.requests);
  const tokens = coveredTokens(reading, config.scans);
  const ended = endedBuilds(rows.builds);
  const findImage = createImageFinder({
    documents,
    makeImage: createImageMaker(documents),
    findBuilt: async ({ buildId = '' }) => {
      const { digest, mediaType } = await ended(buildId);
      return { digest, mediaType: mediaType ?? mediaTypes.ociManifest };
    },
    checkRight: confirming(reporter.mayPull, confirmed, {
      identities,
      accessToBuilt: (image, grant) =>
        accessInOwnRight(image, ownHost, identities.serviceCredentialsOf(grant)),
      builds: { get: ended },
      findServed: createFindServed({
        tokens,
        ownHost,
        servedPrefix: `${config.prefix}/`,
        isOpen: pulls === 'open',
      }),
      watch: rights,
      ownHost,
      lifeMs: config.rightLife,
      graceMs: rightGraceMs,
    }),
  });
  const auth = createRegistryAuth({
    authenticator: hosted.authenticator,
    tokens: hosted.tokens,
    realm: new URL(tokenPath, publicUrl).href,
    // Failed logins are counted by the leader.
    logIn: leaderOnly('it counts failed logins'),
    pulls,
  });
  /** As `keptBlob`. What cannot be read at all fails before the head of the response. */
  const kept: typeof keptBlob = async (store, digest, ...rest) => {
    if (!blobs.accepts(digest)) throw new LeaderOnly('the content cannot be read here');
    return begunBlob(await keptBlob(store, digest, ...rest), digest);
  };
  const begunBlob = async (found: FoundBlob, digest: Digest): Promise<FoundBlob> => {
    if (found.kind !== 'stream' || found.delivery !== 'stored') return found;
    return { ...found, source: await begun(blobs.notingFailures(found.source, digest)) };
  };
  const finder = createBlobFinder({
    content,
    registry,
    cache: noCache,
    relayed: blobs.relayed,
    modeOf,
    ownHost,
    tally: noTally,
  });
  const requireCovered = ({ access, owns }: PulledImage, digest: Digest): void => {
    if (!blobs.accepts(digest)) throw new LeaderOnly('the content cannot be read here');
    if (access.registry === ownHost || owns(digest)) return;
    if (modeOf(access.registry) === 'cache') throw new LeaderOnly('it keeps copies');
    if (confirmed.has(access)) throw new LeaderOnly('it knows the credentials');
  };
  const servedBlobs: BlobFinder = {
    async head(image, digest, signal) {
      requireCovered(image, digest);
      return finder.head(image, digest, signal);
    },
    async open(image, digest, rangeOf, signal) {
      requireCovered(image, digest);
      return begunBlob(await finder.open(image, digest, rangeOf, signal), digest);
    },
    order: async () => undefined,
  };
  const { trustedProxies } = config;
  const noNote = () => {};
  const routes = registryRoutes({
    prefix: config.prefix,
    served: {
      auth,
      prefix: config.prefix,
      tokens,
      isLent: () => false,
      findImage,
      findManifest: createManifestFinder(documents, registry),
      blobs: servedBlobs,
      registry,
      scanReferrers: undefined,
      meter: reporter.meter,
      notePull: noNote,
      noteBlob: blobs.note,
      trustedProxies,
      rightLifeMs: config.rightLife,
      repeatedCheck: (request, check) => async () => {
        if (!isCurrent()) return handOn.checkRight(request);
        return check().catch(error => {
          if (error instanceof LeaderOnly) return handOn.checkRight(request);
          throw error;
        });
      },
    },
    hosted: {
      ...hosted,
      content,
      auth,
      recordAudit: noNote,
      noteBlob: blobs.note,
      notePull: noNote,
      host: hosted.tokens.service,
      awaitBuild: leaderOnly('it knows the builds'),
      countPull: reporter.countHosted,
      trustedProxies,
      keptBlob: kept,
    },
    token: {
      authenticator: hosted.authenticator,
      tokens: hosted.tokens,
      logIn: leaderOnly('it counts failed logins'),
      servedPrefix: `${config.prefix}/`,
      pulls,
    },
  });
  const pageOf = (kind: string) => (id: string) => new URL(`/view/${kind}/${id}`, publicUrl).href;
  const states = statusApi({
    builds: { get: id => readBuild(rows.builds, id) },
    tokens: reading,
    pageUrlOf: pageOf('builds'),
    scans: configuredScanner(config) && {
      async get(id) {
        const scan = await readEndedScan(rows.scans, id);
        if (!scan) throw new LeaderOnly('it runs the scans');
        return scan;
      },
      refusalOf,
      pageUrlOf: pageOf('scans'),
    },
    scanPolicy: config.scans,
  });
  // As the leader does.
  const looking = setInterval(() => {
    accountFiles.look().catch(err => log.warn({ err }, 'cannot check the account files'));
  }, accountsMs).unref();
  parts.defer(() => clearInterval(looking));
  const open = parts.move();
  const { readReplica } = readRows;
  return {
    routes,
    states,
    close: () => open.disposeAsync(),
    ...(readReplica ? { readReplica } : {}),
  };
}

/** Leaves requests to the leader whose right depends on what only the leader has. */
export function coveredTokens({ get, unrevoked }: TokenReader, policy: ScanPolicy): TokenReader {
  return {
    get: async token => covered(await get(token), policy),
    unrevoked: async token => covered(await unrevoked(token), policy),
  };
}

function covered(request: ContainerRequest, policy: ScanPolicy): ContainerRequest {
  const { isFrozen, scan, caller } = request;
  if (isFrozen) throw new LeaderOnly('the image has another name');
  // The leader is asked for the right of a name with a scan. One from before the setting has none.
  if (!scan && mustScan(policy, caller.user)) throw new LeaderOnly('it knows the scan');
  return request;
}

/**
 * True for a request whose right only the leader knows: a platform may replace the access token when it is asked, and one
 * server keeps the new one; a scan is in the memory of the leader.
 */
function needsLeader({ caller, scan }: ContainerRequest): boolean {
  const isOfPlatform = caller.grant !== undefined && !caller.user?.startsWith('account ');
  return isOfPlatform || scan !== undefined;
}

/**
 * Returns the check of rights, which asks the leader where only it knows them. What it says holds for two seconds, and gives no
 * credentials: this replica sends what the site has of such an image.
 *
 * @param confirmed receives the access to such images
 */
function confirming(
  mayPull: PullReporter['mayPull'],
  confirmed: WeakSet<Access>,
  deps: Parameters<typeof createCheckRight>[0],
): ReturnType<typeof createCheckRight> {
  const checkRight = createCheckRight(deps);
  return async request => {
    if (!needsLeader(request)) return checkRight(request);
    const asked = performance.now();
    if (!(await mayPull(request.token))) throw new LeaderOnly('it checks the right');
    const { registry, repository } = request.image;
    const access = { registry, repository, credentials: undefined };
    confirmed.add(access);
    return { access, until: asked + heardMs };
  };
}

/** Asks registries for images only with the credentials of their request. */
function withoutConfirmed(registry: RegistryClient, confirmed: WeakSet<Access>): RegistryClient {
  const own = (access: Access): RegistryClient => {
    if (confirmed.has(access)) throw new LeaderOnly('it knows the credentials');
    return registry;
  };
  return {
    headManifest: async (access, ...rest) => own(access).headManifest(access, ...rest),
    getManifest: async (access, ...rest) => own(access).getManifest(access, ...rest),
    getBlob: async (access, ...rest) => own(access).getBlob(access, ...rest),
    openBlob: async (access, ...rest) => own(access).openBlob(access, ...rest),
    headBlob: async (access, ...rest) => own(access).headBlob(access, ...rest),
    getJson: async (access, ...rest) => own(access).getJson(access, ...rest),
  };
}

/** Returns the builds that have made an image. Others may run: only the leader can wait for them. */
function endedBuilds(builds: Pick<BuildStore, 'find'>) {
  return async (id: string) => {
    const row = await builds.find(id);
    if (!row?.succeeded || row.digest === null) throw new LeaderOnly('it knows the build');
    return { ...row, digest: row.digest };
  };
}

/** Copies of blobs of other registries are kept by the leader. */
const noCache: BlobCache = {
  join: leaderOnly('it keeps copies'),
  isFrom: async () => false,
  shownBy() {},
  used() {},
};

/** The leader has stored the documents, in the share of their caller. */
const unlimitedShare = {
  take: async () => ({ async grow() {}, async keep() {}, [Symbol.dispose]() {} }),
};
