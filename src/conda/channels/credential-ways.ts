import { restBelow } from './channel-address.ts';
import type { ChannelSettings, ChannelToken } from './channel-settings.ts';

/** One way to show credentials to a channel. */
export interface CredentialWay {
  readonly headers: Readonly<Record<string, string>>;
  /** Returns the address to ask, with the token where it belongs into the path. */
  place(url: string): string;
  /** Notes that the channel accepted this way: the others are not tried again. */
  accepted(): void;
}

const openWay: CredentialWay = { headers: {}, place: url => url, accepted() {} };

/**
 * Returns a function that returns the ways to show credentials at a base of a channel. Credentials are only for the origin
 * of their channel: a mirror elsewhere gets those that are listed for its own URL.
 */
export function createCredentialWays(channels: readonly ChannelSettings[]) {
  const accepted = new Map<ChannelSettings, CredentialWay>();

  return (settings: ChannelSettings | undefined, base: string): readonly CredentialWay[] => {
    const owner =
      settings && sameOrigin(settings.url, base)
        ? settings
        : channels.find(({ url }) => url === base);
    if (owner === undefined) return [openWay];
    const known = accepted.get(owner);
    if (known) return [known];
    const ways = waysOf(owner).map(way => {
      const noted: CredentialWay = { ...way, accepted: () => void accepted.set(owner, noted) };
      return noted;
    });
    return ways;
  };
}

function waysOf({ credentials }: ChannelSettings): readonly CredentialWay[] {
  switch (credentials?.kind) {
    case undefined:
      return [openWay];
    case 'password': {
      const login = Buffer.from(`${credentials.username}:${credentials.password}`);
      return [{ ...openWay, headers: { authorization: `Basic ${login.toString('base64')}` } }];
    }
    case 'path-token':
      return [inPath(credentials)];
    case 'token':
      return [
        { ...openWay, headers: { authorization: `Bearer ${credentials.token}` } },
        inPath(credentials),
      ];
  }
}

/**
 * The token follows the host, as in `https://host/t/<token>/channel`, or the path that the configuration has in front of
 * it. Source: conda, Channels and tokens.
 */
function inPath({ token, above = '' }: ChannelToken): CredentialWay {
  const place = (text: string) => {
    const { origin, pathname, search } = new URL(text);
    const rest = restBelow(above, pathname);
    const [front, below] = rest === undefined ? ['', pathname] : [above, rest];
    return `${origin}${front}/t/${encodeURIComponent(token)}${below}${search}`;
  };
  return { ...openWay, place };
}

function sameOrigin(one: string, other: string): boolean {
  return new URL(one).origin === new URL(other).origin;
}
