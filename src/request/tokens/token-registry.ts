import { setTimeout as sleep } from 'node:timers/promises';
import { boundedCache, cacheOfBytes } from '../../foundation/bounded-cache.ts';
import { Fault } from '../../foundation/fault.ts';
import type { AnonymousShare, RequestStore, RequestTimes } from '../../storage/rows/index.ts';
import type { ContainerRequest } from '../container-request.ts';
import {
  type ContainerToken,
  createToken,
  hashToken,
  isToken,
  type NameId,
  nameIdOfToken,
  tokenLabel,
} from './container-token.ts';
import { neededKey, neededRoots } from './needed-roots.ts';

export interface TokenRegistry {
  /** Stores the request and returns it with its token and times. */
  issue(
    make: (token: ContainerToken) => Omit<ContainerRequest, IssuedMember>,
  ): Promise<ContainerRequest>;
  /** Returns the live request of a token. Throws a {@link Fault}: the token is unknown, expired or revoked. */
  get(token: string): Promise<ContainerRequest>;
  /** Returns the request of a token, live or ended, while it is remembered. */
  describe(token: string): Promise<ContainerRequest>;
  /**
   * Returns the request of a token for a transfer that began before the token expired. Throws a {@link Fault}: the token is
   * unknown or revoked.
   */
  unrevoked(token: string): Promise<ContainerRequest>;
  /** Ends the request now; throws if it does not exist. */
  revoke(token: string): Promise<void>;
  /** Does the same for a request that a list has shown. Returns false if it does not exist or has ended. */
  revokeById(id: NameId): Promise<boolean>;
  /**
   * Moves the end of a request that a list has shown, never beyond the maximum life. Returns the new end, which is the old one
   * where nothing could be added; undefined for a request that has ended. One that ends with a run lives until then, or as long
   * as the run.
   *
   * @param byMs ms from now
   */
  extendById(id: NameId, byMs?: number): Promise<Extension | undefined>;
  /** Deletes requests that ended long ago, and corrects dates from a wrong clock. */
  purge(signal?: AbortSignal): Promise<void>;
}

export interface Extension {
  readonly expiresAt: number;
  readonly isLonger: boolean;
}

interface Live {
  readonly request: ContainerRequest;
  /** When it has to be read again because its run may have ended (performance.now()); undefined without a run. */
  readonly goodUntil: number | undefined;
  /** Approximate size in memory. */
  readonly bytes: number;
}

type IssuedMember = 'token' | 'label' | 'createdAt' | 'expiresAt';
type StoredRequest = Omit<ContainerRequest, IssuedMember>;

/** Returns the request that {@link TokenRegistry.issue} has stored, without the token. */
export function readStoredRequest(body: string): StoredRequest {
  return JSON.parse(body);
}

// How long a pull waits for the database when the image is known.
const responseMs = 1000;
// How long a pull may use the end of a run that was confirmed meanwhile, or that has ended.
const runReadMs = 5000;
// About 15,000 usual requests, or 30 of the largest.
const cachedBytes = 32 * 1024 * 1024;
const mostUnclear = 1000;
const longestCheckMs = 180_000;
// The token gives access, so the stored request has this placeholder.
const tokenMark = '<token>';
/** How long an ended token is remembered, and the run that it ended with: "expired" helps its user more than "unknown". */
export const rememberMs = 3 * 24 * 3600 * 1000;
// A request dated further in the future than this was made by a wrong clock.
const futureMs = 3_600_000;

/** Gives what is stored of a request its token. */
function requestOf(
  token: ContainerToken,
  row: RequestTimes,
  body: StoredRequest,
): ContainerRequest {
  const targetImage = body.targetImage.replace(tokenMark, token);
  const { createdAt } = row;
  return { ...body, ...identity(token), targetImage, createdAt, expiresAt: endOf(row) };
}

/** Pulls that read the row of their token each time: whatever another server ends holds at once. */
export type TokenReader = Pick<TokenRegistry, 'get' | 'unrevoked'>;

/** A request in memory, and the key of its row. */
interface Known {
  readonly hash: Buffer;
  readonly request: ContainerRequest;
  /** Approximate size in memory. */
  readonly bytes: number;
}

/** Reads tokens for a server that does not lead. It keeps each request, and reads only its times again. */
export function createTokenReader(
  store: Pick<RequestStore, 'find' | 'findTimes'>,
  now: () => number = Date.now,
): TokenReader {
  const known = cacheOfBytes<string, Known>(cachedBytes, ({ bytes }) => bytes);
  const read = async (token: string) => {
    if (!isToken(token)) throw unknown();
    const hash = hashToken(token);
    const row = await store.find(hash);
    if (!row) throw unknown();
    const { body, revokedAt } = row;
    const request = requestOf(token, row, readStoredRequest(body));
    known.set(token, { hash, request, bytes: 1000 + body.length });
    return { request, revokedAt };
  };
  const find = async (token: string) => {
    const kept = known.get(token);
    if (!kept) return read(token);
    const times = await store.findTimes(kept.hash);
    if (!times) {
      known.delete(token);
      throw unknown();
    }
    const { createdAt, revokedAt } = times;
    const expiresAt = endOf(times);
    const { request } = kept;
    if (request.createdAt === createdAt && request.expiresAt === expiresAt) {
      return { request, revokedAt };
    }
    const changed = { ...request, createdAt, expiresAt };
    known.set(token, { ...kept, request: changed });
    return { request: changed, revokedAt };
  };
  return {
    async get(token) {
      const { request, revokedAt } = await find(token);
      if (revokedAt !== null) throw revoked(revokedAt);
      if (request.expiresAt <= now()) throw expired(request);
      return request;
    },
    async unrevoked(token) {
      const { request, revokedAt } = await find(token);
      return withoutRevocation(request, revokedAt);
    },
  };
}

function withoutRevocation(request: ContainerRequest, revokedAt: number | null): ContainerRequest {
  if (revokedAt !== null && revokedAt < request.expiresAt) throw revoked(revokedAt);
  return request;
}

export interface TokenRegistryOptions {
  /** The most that a name may live, however long its run is or often it is extended. Default: the usual life. */
  readonly maxLifeMs?: number;
  /** How long a name outlives the last confirmation of its run. Default: the usual life. */
  readonly runLeaseMs?: number;
  /** Returns the time in ms since the epoch. */
  readonly now?: () => number;
  /** Returns false while another server may end requests. */
  readonly isCurrent?: () => boolean;
}

/** @param share limits the requests of callers without a login */
export function createTokenRegistry(
  store: RequestStore,
  lifeMs: number,
  share: Pick<AnonymousShare, 'admitRequest'>,
  options: TokenRegistryOptions = {},
): TokenRegistry {
  const { maxLifeMs = lifeMs, runLeaseMs = lifeMs } = options;
  const { now = Date.now, isCurrent = () => true } = options;
  const live = cacheOfBytes<NameId, Live>(cachedBytes, ({ bytes }) => bytes);

  // Ends of tokens whose answer is still missing, or was lost: only the database knows whether they happened.
  const unclear = boundedCache<NameId, true>(mostUnclear);

  // Increases with each revocation and extension: a request read before one may have another end since.
  let changes = 0;

  const find = async (token: string) => {
    const row = isToken(token) ? await store.find(hashToken(token)) : undefined;
    if (!row) throw unknown();
    const { revokedAt, leaseUntil } = row;
    const request = requestOf(token as ContainerToken, row, readStoredRequest(row.body));
    return { request, revokedAt, isTied: leaseUntil !== null, bytes: 1000 + row.body.length };
  };

  const look = async (token: string): Promise<Live> => {
    const id = idOf(token);
    const before = changes;
    const { request, revokedAt, isTied, bytes } = await find(token);
    if (revokedAt !== null) {
      live.delete(id);
      throw revoked(revokedAt);
    }
    const goodUntil = isTied ? performance.now() + runReadMs : undefined;
    const kept = { request, bytes, goodUntil };
    if (before === changes) live.set(id, kept);
    return kept;
  };
  /** Looks up what is in memory already. Pulls continue while the database does not answer. */
  const lookedUp = async (token: string, kept: Live): Promise<Live> => {
    const late = sleep(responseMs, kept, { ref: false });
    return Promise.race([look(token), late]).catch(error => {
      if (error instanceof Fault && error.kind === 'unavailable') return kept;
      throw error;
    });
  };

  const revokeById = async (id: NameId): Promise<boolean> => {
    unclear.set(id, true);
    const isRevoked = await store.revoke(Buffer.from(id, 'hex'), now());
    changes += 1;
    live.delete(id);
    unclear.delete(id);
    return isRevoked;
  };

  return {
    async issue(make) {
      const token = createToken();
      const createdAt = now();
      const body = make(token);
      const { buildId, caller, run: ofRun } = body;
      const expiresAt = createdAt + (ofRun ? maxLifeMs : lifeMs);
      const run = ofRun && {
        key: Buffer.from(ofRun.key, 'hex'),
        platform: ofRun.platform,
        leaseUntil: createdAt + runLeaseMs,
        dueAt: createdAt + checkEveryMs(runLeaseMs),
      };
      const { network } = caller;
      await share.admitRequest(network);
      const stored = { ...body, targetImage: body.targetImage.replace(token, tokenMark) };
      const needs = neededKey(neededRoots(body));
      const row = {
        createdAt,
        expiresAt,
        body: JSON.stringify(stored),
        network,
        buildId,
        run,
        needs,
      };
      await store.insert(hashToken(token), row);
      // Cached once it is pulled: many requests never are.
      return { ...body, ...identity(token), createdAt, expiresAt };
    },

    async get(token) {
      const id = idOf(token);
      let kept = live.get(id);
      const isOld =
        kept?.goodUntil !== undefined &&
        (kept.goodUntil < performance.now() || kept.request.expiresAt <= now());
      if (kept && (isOld || unclear.has(id) || !isCurrent())) kept = await lookedUp(token, kept);
      kept ??= await look(token);
      const { request } = kept;
      if (request.expiresAt <= now()) throw expired(request);
      return request;
    },

    async describe(token) {
      const { request, revokedAt } = await find(token);
      const expiresAt = Math.min(request.expiresAt, revokedAt ?? Number.POSITIVE_INFINITY);
      return { ...request, expiresAt };
    },

    async unrevoked(token) {
      const { request, revokedAt } = await find(token);
      return withoutRevocation(request, revokedAt);
    },

    async revoke(token) {
      await find(token);
      if (!(await revokeById(idOf(token)))) throw unknown();
    },

    revokeById,

    async extendById(id, byMs = lifeMs) {
      const hash = Buffer.from(id, 'hex');
      const row = await store.find(hash);
      const at = now();
      if (!row || row.revokedAt !== null || endOf(row) <= at) return undefined;
      const until = Math.min(at + byMs, row.createdAt + maxLifeMs);
      if (until <= endOf(row)) return { expiresAt: endOf(row), isLonger: false };
      const { buildId } = readStoredRequest(row.body);
      if (!(await store.extend(hash, until, buildId))) return undefined;
      changes += 1;
      live.delete(id);
      return { expiresAt: until, isLonger: true };
    },

    async purge(signal) {
      await store.purge(now() - rememberMs, signal);
      // A request dated in the future would live until then, and for the usual time after that.
      const redated = await store.redate(now(), now() + maxLifeMs + futureMs, signal);
      if (redated > 0) live.clear();
    },
  };
}

/** Returns how often the platform of a run is asked: several times within the life of a confirmation. */
export function checkEveryMs(leaseMs: number): number {
  return Math.min(longestCheckMs, leaseMs / 4);
}

/** Returns when a name ends: at the latest with the last confirmation of its run. */
export function endOf({
  expiresAt,
  leaseUntil,
}: Pick<RequestTimes, 'expiresAt' | 'leaseUntil'>): number {
  return Math.min(expiresAt, leaseUntil ?? Number.POSITIVE_INFINITY);
}

function idOf(token: string): NameId {
  return nameIdOfToken(token as ContainerToken);
}

function identity(token: ContainerToken): Pick<ContainerRequest, 'token' | 'label'> {
  return { token, label: tokenLabel(token) };
}

function unknown(): Fault {
  return new Fault(
    'not-found',
    'Unknown container token: check the name, or make a new container request',
    { phase: 'request' },
  );
}

function expired({ expiresAt, image, run }: ContainerRequest): Fault {
  const at = isoSeconds(expiresAt);
  return new Fault(
    'not-found',
    run
      ? `The container token for ${image.repository} ended at ${at} with the run ${run.id}, which ${run.platform} did not report as active since: make a new container request`
      : `The container token for ${image.repository} expired at ${at}: make a new container request`,
    { phase: 'request' },
  );
}

function revoked(at: number): Fault {
  return new Fault(
    'not-found',
    `The container token was revoked at ${isoSeconds(at)}: make a new container request`,
    { phase: 'request' },
  );
}

function isoSeconds(ms: number): string {
  return new Date(ms).toISOString().replace(/\.\d+Z$/, 'Z');
}
