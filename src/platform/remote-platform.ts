import { z } from 'zod';
import { Fault } from '../foundation/fault.ts';
import type { Calls, Reply } from './calls.ts';
import { readKeys } from './credentials/keys-document.ts';
import type { Endpoint, Endpoints } from './endpoint.ts';
import type { GrantCache } from './grants/grant-cache.ts';
import { grantKey } from './grants/grant-key.ts';
import { refreshTokens, type TokenPairs } from './grants/token-pairs.ts';
import { hasScope, tokenScopes } from './token-rights.ts';
import {
  type CredentialEntry,
  type CredentialKeys,
  type Grant,
  type Platform,
  type PlatformUser,
  unknownRun,
} from './workflow-platform.ts';

/** The key pair with which a platform encrypts secrets. */
export interface PairingKey {
  readonly id: string;
  /** Returns the secret in a packet. Throws an `Error` when it was encrypted for another key. */
  open(packet: string): string;
}

interface RemotePlatformDeps {
  readonly endpoints: Endpoints;
  readonly calls: Calls;
  readonly pairs: TokenPairs;
  readonly cache: GrantCache;
  /** Returns the key of a platform that has paired. */
  readonly pairingKey: (endpoint: Endpoint) => Promise<PairingKey | undefined>;
  /** How long a response is cached (ms). A revoked token or removed credentials still work for this time. */
  readonly responseLifeMs: number;
}

const userRequest = 'user';
const maxPages = 50;
const longestStatus = 100;
const idPattern = /^[A-Za-z0-9_-]{1,128}$/;
// The characters allowed in a header (RFC 9110, section 5.5), at a length that servers accept.
const longestToken = 8192;
const tokenPattern = new RegExp(`^[\\x21-\\x7e]{1,${longestToken}}$`);

interface PlatformRequest {
  readonly path: string;
  readonly query: Readonly<Record<string, string | undefined>>;
  /** Description for messages. */
  readonly what: string;
  readonly isTriedOnce?: boolean;
}

/** A grant and its platform. */
interface PlatformCaller {
  readonly endpoint: Endpoint;
  readonly grant: Grant;
  readonly key: string;
}

/** The token is valid, but does not have this right. */
class NoRight extends Fault {}

/** The cached outcome of a request: its response, or a missing right. */
type Outcome<T> = { readonly value: T } | { readonly denied: NoRight };

/** A platform that is called over HTTP. Source: platform specification; reference service, section 5. */
export function createRemotePlatform(deps: RemotePlatformDeps): Platform {
  const { endpoints, calls, pairs, cache, pairingKey, responseLifeMs } = deps;

  const callerOf = (grant: Grant): PlatformCaller => {
    const endpoint = endpoints.resolve(grant.endpoint);
    const { accessToken, refreshToken = '' } = grant;
    if (!tokenPattern.test(accessToken) || refreshToken.length > longestToken) {
      throw tokenRefused(endpoint, 'it is malformed');
    }
    return { endpoint, grant, key: grantKey(endpoint, grant) };
  };

  const get = (
    endpoint: Endpoint,
    { path, query, isTriedOnce }: PlatformRequest,
    token: string,
  ): Promise<Reply> =>
    calls({ endpoint, method: 'GET', path, query, token, onBehalfOf: token, isTriedOnce });

  const askUser = async ({ endpoint, grant, key }: PlatformCaller): Promise<PlatformUser> => {
    const request = { path: '/user-info', query: {}, what: 'the user of the token' };
    const pair = await pairs.current(key, grant);
    let reply = await get(endpoint, request, pair.accessToken);
    if (isRefusal(reply)) {
      cache.forget(key);
      if (pair.refreshToken === undefined) throw tokenRefused(endpoint, reply.status);
      const renewed = await pairs.renew(key, grant, pair, token =>
        refreshTokens(calls, endpoint, token),
      );
      reply = await get(endpoint, request, renewed.accessToken);
      if (isRefusal(reply)) throw tokenRefused(endpoint, reply.status);
    }
    // Every platform knows its own user, so the address is wrong.
    if (reply.status === 404) return malformedReply(endpoint, request);
    return readReply(userReply, reply, endpoint, request);
  };

  const user = (caller: PlatformCaller): Promise<PlatformUser> =>
    cache.get(caller.key, userRequest, responseLifeMs, () => askUser(caller));

  /**
   * A rejection means an invalid token, or a valid one without this right. A request for the user's own data shows
   * which.
   */
  const ask = async (caller: PlatformCaller, request: PlatformRequest): Promise<Reply> => {
    const { endpoint, grant, key } = caller;
    const pair = await pairs.current(key, grant);
    const reply = await get(endpoint, request, pair.accessToken);
    if (!isRefusal(reply)) return reply;
    cache.drop(key, userRequest);
    await user(caller);
    const newest = await pairs.current(key, grant);
    if (newest.accessToken !== pair.accessToken) {
      const again = await get(endpoint, request, newest.accessToken);
      if (!isRefusal(again)) return again;
    }
    throw new NoRight(
      'denied',
      `The platform ${endpoint.host} does not let this token read ${request.what} (${reply.status})`,
      { phase: 'credentials' },
    );
  };

  const remembered = async <T>(
    caller: PlatformCaller,
    name: string,
    load: () => Promise<T>,
  ): Promise<T> => {
    const outcome = await cache
      .get<Outcome<T>>(caller.key, name, responseLifeMs, async () => ({ value: await load() }))
      .catch((error: unknown): Outcome<T> => {
        if (!(error instanceof NoRight)) throw error;
        const denied: Outcome<T> = { denied: error };
        cache.put(caller.key, name, responseLifeMs, denied);
        return denied;
      });
    if ('denied' in outcome) throw outcome.denied;
    return outcome.value;
  };

  const loadCredentials = async (caller: PlatformCaller, workspaceId: string | undefined) => {
    const found = new Map<string, CredentialEntry>();
    let page: Readonly<Record<string, string>> = {};
    for (let pages = 0; pages < maxPages; pages += 1) {
      const request = {
        path: '/credentials',
        query: { workspaceId, ...page },
        what: workspaceId === undefined ? "the user's credentials" : `workspace ${workspaceId}`,
      };
      const reply = await ask(caller, request);
      const before = found.size;
      const { credentials, totalSize } = readReply(
        credentialsReply,
        reply,
        caller.endpoint,
        request,
      );
      for (const entry of credentials) found.set(entry.id, entry);
      // A platform without paging sends the same entries again.
      if (found.size >= (totalSize ?? 0) || found.size === before) break;
      page = { max: String(credentials.length), offset: String(found.size) };
    }
    return [...found.values()];
  };

  const loadKeys = async (caller: PlatformCaller, id: string, workspaceId: string | undefined) => {
    const { endpoint } = caller;
    const pairing = await pairingKey(endpoint);
    const request = {
      path: `/credentials/${id}/keys`,
      query: { workspaceId, pairingId: pairing?.id },
      what: `the keys of credentials ${id}`,
    };
    const reply = await ask(caller, request);
    const { keys } = readReply(keysReply, reply, endpoint, request);
    const document = typeof keys === 'string' ? decryptedDocument(keys, pairing, endpoint) : keys;
    return readKeys(document) ?? malformedReply(endpoint, request);
  };

  const loadRun = async (caller: PlatformCaller, id: string, workspaceId: string | undefined) => {
    const request = {
      path: `/workflow/${id}`,
      query: { workspaceId },
      what: `the run ${id}`,
      isTriedOnce: true,
    };
    const reply = await ask(caller, request);
    const { workflow } = readReply(runReply, reply, caller.endpoint, request);
    if ((workflow.id ?? id) !== id) return malformedReply(caller.endpoint, request);
    return workflow.status;
  };

  return {
    user: async grant => user(callerOf(grant)),

    async credentials(grant, workspaceId) {
      const caller = callerOf(grant);
      // Sluice shows credentials to no other server without this scope: images are then pulled without them.
      if (!hasScope((await user(caller)).tokenRights, 'manage')) return [];
      const name = `credentials ${workspaceId ?? ''}`;
      return remembered(caller, name, () => loadCredentials(caller, workspaceId));
    },

    async keys(grant, credentialsId, workspaceId): Promise<CredentialKeys> {
      const caller = callerOf(grant);
      if (!idPattern.test(credentialsId)) {
        throw new Fault('not-found', 'The credentials with this id do not exist', {
          phase: 'credentials',
        });
      }
      const name = `keys ${workspaceId ?? ''} ${credentialsId}`;
      return remembered(caller, name, () => loadKeys(caller, credentialsId, workspaceId));
    },

    async run(grant, id, workspaceId) {
      const caller = callerOf(grant);
      if (!idPattern.test(id)) throw unknownRun(id);
      const name = `run ${workspaceId ?? ''} ${id}`;
      return remembered(caller, name, () => loadRun(caller, id, workspaceId));
    },
  };
}

function isRefusal({ status }: Reply): boolean {
  return status === 401 || status === 403;
}

function readReply<S extends z.ZodType>(
  schema: S,
  { status, document }: Reply,
  endpoint: Endpoint,
  request: PlatformRequest,
): z.output<S> {
  if (status === 404) {
    throw new Fault('not-found', `The platform ${endpoint.host} does not know ${request.what}`, {
      phase: 'credentials',
    });
  }
  const result = schema.safeParse(document);
  return result.success ? result.data : malformedReply(endpoint, request);
}

function decryptedDocument(
  text: string,
  pairing: PairingKey | undefined,
  endpoint: Endpoint,
): unknown {
  try {
    if (text.startsWith('{')) return JSON.parse(text);
    if (pairing) return JSON.parse(pairing.open(text));
  } catch {
    throw new Fault(
      'upstream-unusable',
      `The platform ${endpoint.host} sent keys that cannot be decrypted: they were encrypted for another pairing; pair it again`,
      { phase: 'credentials' },
    );
  }
  throw new Fault(
    'upstream-unusable',
    `The platform ${endpoint.host} encrypts keys, and is not paired with this server: pair it first`,
    { phase: 'credentials' },
  );
}

function malformedReply({ host }: Endpoint, { what }: PlatformRequest): never {
  throw new Fault(
    'upstream-unusable',
    `The response of the platform ${host} does not contain ${what}: check that the address is that of its API`,
    { phase: 'credentials' },
  );
}

function tokenRefused({ host }: Endpoint, why: number | string): Fault {
  return new Fault(
    'denied',
    `The platform ${host} refused the access token (${why}): it is wrong, expired or revoked; create a new one there`,
    { phase: 'credentials' },
  );
}

const textSchema = z
  .string()
  .nullish()
  .transform(value => value || undefined);
const idSchema = z.union([z.string().min(1), z.number()]).transform(String);

// A scope that this version does not know gives no right here.
const tokenRights = z
  .object({ scopes: z.array(z.string()), repositories: z.array(z.string()).optional() })
  .transform(({ scopes, repositories }) => ({
    scopes: tokenScopes.filter(scope => scopes.includes(scope)),
    repositories,
  }))
  .optional();

const buildMails = { ALWAYS_ON: 'always', ON_ERROR: 'errors', ALWAYS_OFF: 'never' } as const;

/** Response to `GET /user-info`. */
const userReply = z
  .object({
    user: z.object({
      id: idSchema,
      userName: textSchema,
      email: textSchema,
      waveBuildNotification: z.enum(['ALWAYS_ON', 'ON_ERROR', 'ALWAYS_OFF']).nullish().catch(null),
    }),
    tokenRights,
  })
  .transform(
    ({ user: { waveBuildNotification, ...user }, tokenRights: rights }): PlatformUser => ({
      ...user,
      ...(waveBuildNotification ? { buildMail: buildMails[waveBuildNotification] } : {}),
      userName: user.userName ?? user.id,
      ...(rights ? { tokenRights: rights } : {}),
    }),
  );

const entrySchema = z
  .object({
    id: idSchema,
    name: textSchema,
    provider: textSchema,
    description: textSchema,
    registry: textSchema,
    keys: z.object({ registry: textSchema }).nullish(),
  })
  .transform(
    ({ keys, name, provider, ...others }): CredentialEntry => ({
      ...others,
      name: name ?? others.id,
      provider: provider ?? 'other',
      registry: others.registry ?? keys?.registry,
    }),
  );

/** Response to `GET /credentials`: one page and, where the platform reports it, the number of entries on all pages. */
const credentialsReply = z.object({
  credentials: z.array(entrySchema),
  totalSize: z.number().nullish(),
});

/** Response to `GET /workflow/{id}`. */
const runReply = z.object({
  workflow: z.object({ id: textSchema, status: z.string().max(longestStatus) }),
});

/** Response to `GET /credentials/{id}/keys`: a packet, or the keys themselves. */
const keysReply = z.object({
  keys: z.union([z.string(), z.record(z.string(), z.unknown())]),
});
