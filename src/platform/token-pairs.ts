import { z } from 'zod';
import { Fault } from '../fault.ts';
import type { SecretBox } from '../store/secret-box.ts';
import type { TokenPairStore } from '../store/token-pairs.ts';
import type { Grant } from './platform.ts';

/** An access token and what renews it. */
export interface TokenPair {
  readonly accessToken: string;
  readonly refreshToken: string | undefined;
}

/** The newest tokens of each grant, by its key. */
export interface TokenPairs {
  /** What was renewed last; the grant's own tokens when none was. */
  current(grantKey: string, grant: Grant): TokenPair;
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
  /** Removes what was not renewed for 30 days; returns how many. */
  purge(): number;
}

export interface TokenPairsDeps {
  readonly store: TokenPairStore;
  readonly box: SecretBox;
  readonly now?: () => number;
}

const keptMs = 30 * 24 * 3_600_000;
const pairSchema = z.object({ accessToken: z.string(), refreshToken: z.string().optional() });

/** Only renewed pairs are kept: a request can bring its own tokens, but put none in place of newer ones. */
export function createTokenPairs({ store, box, now = Date.now }: TokenPairsDeps): TokenPairs {
  const renewing = new Map<string, Promise<TokenPair>>();
  const place = (key: string) => `platform tokens ${key}`;

  const kept = (key: string): TokenPair | undefined => {
    const sealed = store.find(key);
    if (sealed === undefined) return undefined;
    try {
      const { accessToken, refreshToken } = pairSchema.parse(
        JSON.parse(box.open(sealed, place(key))),
      );
      return { accessToken, refreshToken };
    } catch {
      // Sealed with a key that is gone: the tokens of the request are all there is.
      return undefined;
    }
  };

  const current = (key: string, { accessToken, refreshToken }: Grant): TokenPair =>
    (refreshToken === undefined ? undefined : kept(key)) ?? { accessToken, refreshToken };

  const refreshed = async (
    key: string,
    refreshToken: string,
    refresh: (refreshToken: string) => Promise<TokenPair>,
  ): Promise<TokenPair> => {
    try {
      const pair = await refresh(refreshToken);
      store.put(key, box.seal(JSON.stringify(pair), place(key)), now());
      return pair;
    } catch (error) {
      if (error instanceof Fault && error.kind === 'denied') store.remove(key);
      throw error;
    }
  };

  return {
    current,

    async renew(key, grant, refused, refresh) {
      const running = renewing.get(key);
      if (running) return running;
      const newest = current(key, grant);
      if (newest.accessToken !== refused.accessToken) return newest;
      if (newest.refreshToken === undefined) {
        throw new Fault('denied', 'There is no refresh token to renew the access token with', {
          phase: 'credentials',
        });
      }
      const renewal = refreshed(key, newest.refreshToken, refresh).finally(() =>
        renewing.delete(key),
      );
      renewing.set(key, renewal);
      return renewal;
    },

    purge: () => store.purge(now() - keptMs),
  };
}
