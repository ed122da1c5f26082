import { z } from 'zod';
import { boundedCache } from '../../foundation/bounded-cache.ts';
import { Fault, isUnwritable } from '../../foundation/fault.ts';
import { SingleFlight } from '../../foundation/single-flight.ts';
import type { SecretBox, TokenPairStore } from '../../storage/rows/index.ts';
import type { Calls, Reply } from '../calls.ts';
import type { Endpoint } from '../endpoint.ts';
import { tokensPlace } from '../seal-again.ts';
import type { Grant } from '../workflow-platform.ts';

/** An access token and its refresh token. */
interface TokenPair {
  readonly accessToken: string;
  readonly refreshToken: string | undefined;
}

/** The newest tokens of each grant, by its key. */
export interface TokenPairs {
  /** Returns the tokens that were renewed last; the grant's own tokens if none were. */
  current(grantKey: string, grant: Grant): Promise<TokenPair>;
  /**
   * Returns a pair newer than the rejected one: a pair that another request has got in the meantime, or the result of
   * `refresh`, which runs once for all waiting callers. Throws a {@link Fault} (403) when there is no refresh token,
   * and whatever `refresh` throws.
   */
  renew(
    grantKey: string,
    grant: Grant,
    refused: TokenPair,
    refresh: (refreshToken: string) => Promise<TokenPair>,
  ): Promise<TokenPair>;
  /** Removes pairs that were not renewed within their retention time; returns how many. */
  purge(signal?: AbortSignal): Promise<number>;
}

interface TokenPairsDeps {
  readonly store: TokenPairStore;
  readonly box: SecretBox;
  readonly now?: () => number;
  /** ms; at least the maximum lifetime of a request that needs the tokens */
  readonly keptMs: number;
}

const mostUnsaved = 10_000;
const pairSchema = z.object({ accessToken: z.string(), refreshToken: z.string().optional() });

/** Stores only renewed pairs: a request can bring its own tokens, but cannot replace newer ones. */
export function createTokenPairs({
  store,
  box,
  keptMs,
  now = Date.now,
}: TokenPairsDeps): TokenPairs {
  const renewing = new SingleFlight<TokenPair>();
  // Renewed pairs that are still being written to disk. A refresh token works once, so these are the only copies.
  const unsaved = boundedCache<string, TokenPair>(mostUnsaved);

  const kept = async (key: string): Promise<TokenPair | undefined> => {
    const newest = unsaved.get(key);
    if (newest) return newest;
    const sealed = await store.find(key);
    // Another request renewed the tokens while this one read the older pair.
    const renewed = unsaved.get(key);
    if (renewed) return renewed;
    if (sealed === undefined) return undefined;
    try {
      const { accessToken, refreshToken } = pairSchema.parse(
        JSON.parse(box.open(sealed, tokensPlace(key))),
      );
      return { accessToken, refreshToken };
    } catch {
      // Encrypted with a key that is gone: only the tokens of the request are left.
      return undefined;
    }
  };

  const current = async (key: string, { accessToken, refreshToken }: Grant): Promise<TokenPair> =>
    (refreshToken === undefined ? undefined : await kept(key)) ?? { accessToken, refreshToken };

  /** Resolves when the pair would survive a power failure. If the disk does not accept it, `purge` tries again. */
  const save = async (key: string, pair: TokenPair): Promise<void> => {
    unsaved.set(key, pair);
    await store.put(key, box.seal(JSON.stringify(pair), tokensPlace(key)), now());
    if (unsaved.get(key) === pair) unsaved.delete(key);
  };

  const refreshed = async (
    key: string,
    refreshToken: string,
    refresh: (refreshToken: string) => Promise<TokenPair>,
  ): Promise<TokenPair> => {
    try {
      const pair = await refresh(refreshToken);
      await save(key, pair).catch(error => {
        // Pulls continue with the pair in memory; `purge` saves it once the disk accepts it.
        if (!isUnwritable(error)) throw error;
      });
      return pair;
    } catch (error) {
      if (error instanceof Fault && error.kind === 'denied') await store.remove(key);
      throw error;
    }
  };

  const newer: TokenPairs['renew'] = async (key, grant, refused, refresh) => {
    const newest = await current(key, grant);
    if (newest.accessToken !== refused.accessToken) return newest;
    if (newest.refreshToken === undefined) {
      throw new Fault(
        'denied',
        'The access token has expired, and the request has no refresh token: create a new access token',
        {
          phase: 'credentials',
        },
      );
    }
    return refreshed(key, newest.refreshToken, refresh);
  };

  return {
    current,

    async renew(key, grant, refused, refresh) {
      for (;;) {
        let isOwn = false;
        const renew = () => {
          isOwn = true;
          return newer(key, grant, refused, refresh);
        };
        const pair = await renewing.run(renew, { key });
        if (isOwn || pair.accessToken !== refused.accessToken) return pair;
      }
    },

    purge(signal) {
      for (const [key, pair] of unsaved.entries()) void save(key, pair).catch(() => {});
      return store.purge(now() - keptMs, signal);
    },
  };
}

const documentSchema = z.object({
  access_token: z.string().nullish(),
  refresh_token: z.string().nullish(),
});

/**
 * Requests new tokens from a platform. They are in the cookies `JWT` and `JWT_REFRESH_TOKEN` of the response, or in
 * its JSON as defined in RFC 6749, section 5.1. Without a new refresh token, the old one stays valid. Throws a
 * {@link Fault}: 403 when the platform rejects the refresh token.
 */
export async function refreshTokens(
  calls: Calls,
  endpoint: Endpoint,
  refreshToken: string,
): Promise<TokenPair> {
  const reply = await calls({
    endpoint,
    method: 'POST',
    path: '/oauth/access_token',
    form: { grant_type: 'refresh_token', refresh_token: refreshToken },
    onBehalfOf: refreshToken,
  }).catch(error => {
    // 400 is how RFC 6749, section 5.2, reports an invalid token.
    throw error instanceof Fault && error.kind === 'bad-request'
      ? refreshRefused(endpoint, 400)
      : error;
  });
  if (reply.status >= 400) throw refreshRefused(endpoint, reply.status);
  const { access_token: fromBody, refresh_token: refreshFromBody } =
    documentSchema.safeParse(reply.document).data ?? {};
  const accessToken = cookieIn(reply, 'JWT') || fromBody;
  if (!accessToken) {
    throw new Fault(
      'upstream',
      `The platform ${endpoint.host} renewed the access token, but did not return the new one: create a new token there`,
      {
        phase: 'credentials',
      },
    );
  }
  return {
    accessToken,
    refreshToken: cookieIn(reply, 'JWT_REFRESH_TOKEN') || refreshFromBody || refreshToken,
  };
}

function refreshRefused({ host }: Endpoint, status: number): Fault {
  return new Fault(
    'denied',
    `The platform ${host} did not renew the expired access token (${status}): log in there again, or create a new token`,
    { phase: 'credentials' },
  );
}

/**
 * Several `Set-Cookie` lines arrive joined by commas, and dates within them contain commas. The search finds names
 * anyway.
 */
function cookieIn({ headers }: Reply, name: string): string | undefined {
  const line = headers.get('set-cookie') ?? '';
  return new RegExp(`(?:^|,)\\s*${name}="?([^;,"\\s]*)`).exec(line)?.[1];
}
