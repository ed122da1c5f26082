import { restBelow } from './channel-address.ts';
import type { ChannelSettings, ChannelToken } from './channel-settings.ts';

/** A scheme by which a channel takes credentials. */
export interface CredentialScheme {
  readonly headers: Readonly<Record<string, string>>;
  /** Returns the address to ask, with the token where it belongs into the path. */
  place(url: string): string;
  /** Notes that the channel accepted this scheme: the others are not tried again. */
  accepted(): void;
}

const openScheme: CredentialScheme = { headers: {}, place: url => url, accepted() {} };

/**
 * Returns a function that returns the schemes for credentials at a base of a channel. Credentials are only for the
 * origin of their channel: a mirror elsewhere gets those that are listed for its own URL.
 */
export function createCredentialSchemes(channels: readonly ChannelSettings[]) {
  const accepted = new Map<ChannelSettings, CredentialScheme>();

  return (settings: ChannelSettings | undefined, base: string): readonly CredentialScheme[] => {
    const owner =
      settings && sameOrigin(settings.url, base)
        ? settings
        : channels.find(({ url }) => url === base);
    if (owner === undefined) return [openScheme];
    const known = accepted.get(owner);
    if (known) return [known];
    const schemes = schemesOf(owner).map(scheme => {
      const noted: CredentialScheme = {
        ...scheme,
        accepted: () => void accepted.set(owner, noted),
      };
      return noted;
    });
    return schemes;
  };
}

function schemesOf({ credentials }: ChannelSettings): readonly CredentialScheme[] {
  switch (credentials?.kind) {
    case undefined:
      return [openScheme];
    case 'password': {
      const login = Buffer.from(`${credentials.username}:${credentials.password}`);
      return [{ ...openScheme, headers: { authorization: `Basic ${login.toString('base64')}` } }];
    }
    case 'path-token':
      return [inPath(credentials)];
    case 'token':
      return [
        { ...openScheme, headers: { authorization: `Bearer ${credentials.token}` } },
        inPath(credentials),
      ];
  }
}

/**
 * The token follows the host, as in `https://host/t/<token>/channel`, or the path that the configuration has in front of
 * it. Source: conda, Channels and tokens.
 */
function inPath({ token, above = '' }: ChannelToken): CredentialScheme {
  const place = (text: string) => {
    const { origin, pathname, search } = new URL(text);
    const rest = restBelow(above, pathname);
    const [front, below] = rest === undefined ? ['', pathname] : [above, rest];
    return `${origin}${front}/t/${encodeURIComponent(token)}${below}${search}`;
  };
  return { ...openScheme, place };
}

function sameOrigin(one: string, other: string): boolean {
  return new URL(one).origin === new URL(other).origin;
}
