import type { HttpRequest, Transport, UpstreamResponse } from '../../upstream/index.ts';
import {
  type RetryPolicy,
  redirected,
  redirectedRequest,
  withRetries,
} from '../../upstream/transport/index.ts';
import { plainBase, restBelow } from './channel-address.ts';
import { ChannelFault, silenceFault, statusFault } from './channel-fault.ts';
import {
  type ChannelSettings,
  type ChannelToken,
  createChannelLookup,
  type NamedChannel,
} from './channel-settings.ts';

/** Fetches files of channels with the mirrors, credentials and rules of their configuration. */
export interface ChannelAccess {
  /**
   * Returns the base URL of a channel, without credentials and without a subdirectory.
   *
   * @param channel a name, such as `conda-forge`, or a URL
   */
  baseUrl(channel: string): string;
  /**
   * Returns the channels that a channel stands for as a caller writes it, such as `conda-forge[linux-64]`: two for
   * `defaults`, unless the configuration lists it.
   */
  channelsOf(written: string): readonly NamedChannel[];
  /**
   * Opens a file of a channel: an archive, repository data, or a lock file. Tries the mirrors of the channel in turn. A
   * URL below no known channel is fetched as it is. Returns the response with its status 200, 206 or 304. Throws a
   * `Fault` that names the channel: 400 for other statuses, for a closed address, and for a channel that does not
   * answer.
   */
  open(url: string, options: OpenOptions): Promise<UpstreamResponse>;
}

interface OpenOptions {
  readonly headers?: Readonly<Record<string, string>>;
  readonly signal: AbortSignal;
  /** Receives the address that has answered, which may be that of a mirror, without credentials. */
  readonly onPlace?: ((url: string) => void) | undefined;
}

interface ChannelAccessDeps {
  readonly channels: readonly ChannelSettings[];
  /** May connect to the hosts of channels that are listed with `allowPrivateAddress`. */
  readonly transport: Transport;
  /** Connects to public addresses only. */
  readonly guarded: Transport;
  readonly retry: RetryPolicy;
}

/** A place that has the file. */
interface Place {
  readonly url: string;
  readonly schemes: readonly CredentialScheme[];
  readonly mayBePrivate: boolean;
}

const maxRedirects = 5;
const welcomeStatuses = new Set([200, 206, 304]);

export function createChannelAccess(deps: ChannelAccessDeps): ChannelAccess {
  const { channels } = deps;
  const schemesFor = createCredentialSchemes(channels);
  const lookup = createChannelLookup(channels);

  /** Returns the channel whose base is the longest one above the URL, and the rest of the URL. */
  const find = (url: string) => {
    const found = channels.flatMap(settings =>
      [settings.url, ...settings.keys].flatMap(base => {
        const rest = restBelow(base, url);
        return rest === undefined ? [] : [{ settings, base, rest }];
      }),
    );
    return found.toSorted((a, b) => b.base.length - a.base.length)[0];
  };

  const placesOf = (url: string): { channel: string; file: string; places: readonly Place[] } => {
    const found = find(url);
    if (found === undefined) {
      const { channel, file } = splitUrl(url);
      return {
        channel,
        file,
        places: [{ url, schemes: schemesFor(undefined, url), mayBePrivate: false }],
      };
    }
    const { settings, rest } = found;
    const places = [...settings.mirrors, settings.url].map(base => ({
      url: `${base}${rest}`,
      schemes: schemesFor(settings, base),
      mayBePrivate: settings.allowPrivateAddress,
    }));
    return { channel: settings.url, file: rest.slice(1), places };
  };

  return {
    baseUrl: channel => lookup.find(channel).url,
    channelsOf: lookup.channelsOf,
    async open(url, options) {
      const { channel, file, places } = placesOf(withoutLogin(url));
      let failure: unknown;
      for (const place of places) {
        try {
          const response = await openPlace(deps, place, channel, file, options);
          options.onPlace?.(place.url);
          return response;
        } catch (error) {
          if (options.signal.aborted) throw error;
          failure = error;
        }
      }
      throw failure;
    },
  };
}

/** Tries the schemes by which the place may take its credentials. Remembers the scheme that was accepted. */
async function openPlace(
  deps: ChannelAccessDeps,
  place: Place,
  channel: string,
  file: string,
  options: OpenOptions,
): Promise<UpstreamResponse> {
  let status = 0;
  for (const scheme of place.schemes) {
    const request: HttpRequest = {
      url: new URL(scheme.place(place.url)),
      method: 'GET',
      headers: { ...options.headers, ...scheme.headers },
      signal: options.signal,
    };
    const response = await followRedirects(deps, request, place.mayBePrivate).catch(error => {
      if (options.signal.aborted) throw error;
      throw silenceFault(channel, request.url.host, file, error);
    });
    if (welcomeStatuses.has(response.status)) {
      scheme.accepted();
      return response;
    }
    response.body.destroy();
    ({ status } = response);
    if (![401, 403, 404].includes(status)) break;
  }
  throw statusFault(channel, file, status);
}

/** Sends a request and follows redirects. A closed address may be left for another one of the same origin only. */
async function followRedirects(
  deps: ChannelAccessDeps,
  first: HttpRequest,
  mayBePrivate: boolean,
): Promise<UpstreamResponse> {
  let request = first;
  for (let redirects = 0; redirects <= maxRedirects; redirects += 1) {
    const isHome = request.url.origin === first.url.origin;
    const transport = mayBePrivate && isHome ? deps.transport : deps.guarded;
    const response = await withRetries(deps.retry, request.signal, () =>
      transport.sendBlob(request),
    ).catch(error => {
      throw request === first ? error : redirected(error, first.url, request.url);
    });
    const next = redirectedRequest(request, response);
    if (!next) return response;
    response.body.destroy();
    request = next;
  }
  throw new ChannelFault(`${first.url.host} redirects more than ${maxRedirects} times`, undefined);
}

function withoutLogin(text: string): string {
  const url = new URL(text);
  url.username = '';
  url.password = '';
  url.hash = '';
  return url.href;
}

/** Splits `<channel>/<subdir>/<file>` of a URL below no known channel, for messages. */
function splitUrl(text: string): { channel: string; file: string } {
  const { origin, pathname } = new URL(text);
  const [, path = '', file = pathname] = /^(.*?)\/([^/]+\/[^/]+)$/.exec(pathname) ?? [];
  return { channel: plainBase(`${origin}${path}`), file };
}

/** A scheme by which a channel takes credentials. */
interface CredentialScheme {
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
function createCredentialSchemes(channels: readonly ChannelSettings[]) {
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
    case 'bearer':
      return [{ ...openScheme, headers: { authorization: `Bearer ${credentials.token}` } }];
    case 'path-token':
      return [tokenInPath(credentials)];
    case 'token':
      return [
        { ...openScheme, headers: { authorization: `Bearer ${credentials.token}` } },
        tokenInPath(credentials),
      ];
  }
}

/**
 * The token follows the host, as in `https://host/t/<token>/channel`, or the path that the configuration has in front of
 * it. Source: conda, Channels and tokens.
 */
function tokenInPath({ token, above = '' }: ChannelToken): CredentialScheme {
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
