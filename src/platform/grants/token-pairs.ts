import { z } from 'zod';
import { boundedCache } from '../../foundation/bounded-cache.ts';
import { Fault, isUnwritable } from '../../foundation/fault.ts';
import type { TokenPairStore } from '../../storage/rows/people/token-pair-rows.ts';
import type { SecretBox } from '../../storage/rows/secrets/secret-box.ts';
import { tokensPlace } from '../sealed-places.ts';
import type { Grant } from '../workflow-platform.ts';

/** An access token and what renews it. */
export interface TokenPair {
  readonly accessToken: string;
  readonly refreshToken: string | undefined;
}

/** The newest tokens of each grant, by its key. */
export interface TokenPairs {
  /** What was renewed last; the grant's own tokens when none was. */
  current(grantKey: string, grant: Grant): Promise<TokenPair>;
  /**
   * A pair newer than the one that was refused: one that somebody else has got in between, or what `refresh`
   * brings, which is called once for all who wait. Throws a {@link Fault} (403) when there is nothing to
   * renew with, and whatever `refresh` throws.
   */
  renew(
    grantKey: string,
    grant: Grant,
    refused: TokenPair,
    refresh: (refreshToken: string) => Promise<TokenPair>,
  ): Promise<TokenPair>;
  /** Removes what was not renewed for as long as it is kept; returns how many. */
  purge(signal?: AbortSignal): Promise<number>;
}

export interface TokenPairsDeps {
  readonly store: TokenPairStore;
  readonly box: SecretBox;
  readonly now?: () => number;
  /** ms; no less than a request that needs them may live */
  readonly keptMs: number;
}

const mostUnsaved = 10_000;
const pairSchema = z.object({ accessToken: z.string(), refreshToken: z.string().optional() });

/** Only renewed pairs are kept: a request can bring its own tokens, but put none in place of newer ones. */
export function createTokenPairs({
  store,
  box,
  keptMs,
  now = Date.now,
}: TokenPairsDeps): TokenPairs {
  const renewing = new Map<string, Promise<TokenPair>>();
  // Renewed, and on their way to the disk. A refresh token works once: these are all there is of them.
  const unsaved = boundedCache<string, TokenPair>(mostUnsaved);

  const kept = async (key: string): Promise<TokenPair | undefined> => {
    const newest = unsaved.get(key);
    if (newest) return newest;
    const sealed = await store.find(key);
    // Renewed while the older one was read.
    const renewed = unsaved.get(key);
    if (renewed) return renewed;
    if (sealed === undefined) return undefined;
    try {
      const { accessToken, refreshToken } = pairSchema.parse(
        JSON.parse(box.open(sealed, tokensPlace(key))),
      );
      return { accessToken, refreshToken };
    } catch {
      // Sealed with a key that is gone: the tokens of the request are all there is.
      return undefined;
    }
  };

  const current = async (key: string, { accessToken, refreshToken }: Grant): Promise<TokenPair> =>
    (refreshToken === undefined ? undefined : await kept(key)) ?? { accessToken, refreshToken };

  /** Resolves when the pair would survive a power failure. Where the disk does not take it, `purge` tries again. */
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
        // Pulls go on with it; `purge` saves it once the disk takes it.
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
      throw new Fault('denied', 'There is no refresh token to renew the access token with', {
        phase: 'credentials',
      });
    }
    return refreshed(key, newest.refreshToken, refresh);
  };

  return {
    current,

    async renew(key, grant, refused, refresh) {
      for (let running = renewing.get(key); running; running = renewing.get(key)) {
        const pair = await running;
        if (pair.accessToken !== refused.accessToken) return pair;
      }
      const renewal = newer(key, grant, refused, refresh).finally(() => renewing.delete(key));
      renewing.set(key, renewal);
      return renewal;
    },

    purge(signal) {
      for (const [key, pair] of unsaved.entries()) void save(key, pair).catch(() => {});
      return store.purge(now() - keptMs, signal);
    },
  };
}
