import { setTimeout as sleep } from 'node:timers/promises';
import { boundedCache, cacheOfBytes } from '../../foundation/bounded-cache.ts';
import { Fault } from '../../foundation/fault.ts';
import type { AnonymousShare, RequestStore } from '../../storage/rows/index.ts';
import type { ContainerRequest } from '../container-request.ts';
import {
  type ContainerToken,
  createToken,
  hashToken,
  isToken,
  type NameId,
  nameIdOf,
  tokenLabel,
} from './container-token.ts';

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
  /** Deletes requests that ended long ago, and corrects dates from a wrong clock. */
  purge(signal?: AbortSignal): Promise<void>;
}

interface Live {
  readonly request: ContainerRequest;
  /** Approximate size in memory. */
  readonly bytes: number;
}

type IssuedMember = 'token' | 'label' | 'createdAt' | 'expiresAt';

/** Returns the request that {@link TokenRegistry.issue} has stored, without the token. */
export function readStoredRequest(body: string): Omit<ContainerRequest, IssuedMember> {
  return JSON.parse(body);
}

// How long a pull waits for the database when the image is known.
const responseMs = 1000;
// About 15,000 usual requests, or 30 of the largest.
const cachedBytes = 32 * 1024 * 1024;
const mostUnclear = 1000;
// The token gives access, so the stored request has this placeholder.
const tokenMark = '<token>';
// An ended token is remembered for a while: "expired" helps its user more than "unknown".
const rememberMs = 3 * 24 * 3600 * 1000;
// A request dated further in the future than this was made by a wrong clock.
const futureMs = 3_600_000;

export interface TokenRegistryOptions {
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
  { now = Date.now, isCurrent = () => true }: TokenRegistryOptions = {},
): TokenRegistry {
  const live = cacheOfBytes<NameId, Live>(cachedBytes, ({ bytes }) => bytes);

  // Ends of tokens whose answer is still missing, or was lost: only the database knows whether they happened.
  const unclear = boundedCache<NameId, true>(mostUnclear);

  // Increases with each revocation: a request read before one may have been revoked since.
  let revocations = 0;

  const find = async (token: string) => {
    const row = isToken(token) ? await store.find(hashToken(token)) : undefined;
    if (!row) throw unknown();
    const { createdAt, expiresAt, revokedAt } = row;
    const body = readStoredRequest(row.body);
    const targetImage = body.targetImage.replace(tokenMark, token);
    const own = identity(token as ContainerToken);
    const request: ContainerRequest = { ...body, ...own, targetImage, createdAt, expiresAt };
    return { request, revokedAt, bytes: 1000 + row.body.length };
  };

  const look = async (token: string): Promise<Live> => {
    const id = idOf(token);
    const before = revocations;
    const { request, revokedAt, bytes } = await find(token);
    if (revokedAt !== null) {
      live.delete(id);
      throw revoked(revokedAt);
    }
    const kept = { request, bytes };
    if (before === revocations) live.set(id, kept);
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
    revocations += 1;
    live.delete(id);
    unclear.delete(id);
    return isRevoked;
  };

  return {
    async issue(make) {
      const token = createToken();
      const createdAt = now();
      const expiresAt = createdAt + lifeMs;
      const body = make(token);
      const { buildId, caller } = body;
      const { network } = caller;
      await share.admitRequest(network);
      const stored = { ...body, targetImage: body.targetImage.replace(token, tokenMark) };
      const row = { createdAt, expiresAt, body: JSON.stringify(stored), network, buildId };
      await store.insert(hashToken(token), row);
      // Cached once it is pulled: many requests never are.
      return { ...body, ...identity(token), createdAt, expiresAt };
    },

    async get(token) {
      const id = idOf(token);
      let kept = live.get(id);
      if (kept && (unclear.has(id) || !isCurrent())) kept = await lookedUp(token, kept);
      kept ??= await look(token);
      const { request } = kept;
      if (request.expiresAt <= now()) {
        live.delete(id);
        throw expired(request);
      }
      return request;
    },

    async describe(token) {
      const { request, revokedAt } = await find(token);
      const expiresAt = Math.min(request.expiresAt, revokedAt ?? Number.POSITIVE_INFINITY);
      return { ...request, expiresAt };
    },

    async unrevoked(token) {
      const { request, revokedAt } = await find(token);
      if (revokedAt !== null && revokedAt < request.expiresAt) throw revoked(revokedAt);
      return request;
    },

    async revoke(token) {
      await find(token);
      if (!(await revokeById(idOf(token)))) throw unknown();
    },

    revokeById,

    async purge(signal) {
      await store.purge(now() - rememberMs, signal);
      // A request dated in the future would live until then, and for the usual time after that.
      const redated = await store.redate(now(), now() + lifeMs + futureMs, signal);
      if (redated > 0) live.clear();
    },
  };
}

function idOf(token: string): NameId {
  return nameIdOf(hashToken(token as ContainerToken));
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

function expired({ expiresAt, image }: ContainerRequest): Fault {
  return new Fault(
    'not-found',
    `The container token for ${image.repository} expired at ${isoSeconds(expiresAt)}: make a new container request`,
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
