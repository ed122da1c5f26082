import type { HttpRequest, Transport, UpstreamResponse } from '../../upstream/index.ts';
import {
  type RetryPolicy,
  redirected,
  redirectedRequest,
  withRetries,
} from '../../upstream/transport/index.ts';
import type { ChannelAccess, OpenOptions } from './channel-access.ts';
import { plainBase, restBelow } from './channel-address.ts';
import { ChannelFault, silenceFault, statusFault } from './channel-fault.ts';
import { createChannelLookup } from './channel-lookup.ts';
import type { ChannelSettings } from './channel-settings.ts';
import { type CredentialScheme, createCredentialSchemes } from './credential-schemes.ts';

export interface ChannelAccessDeps {
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
const welcome = new Set([200, 206, 304]);

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
          return await openPlace(deps, place, channel, file, options);
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
    const response = await follow(deps, request, place.mayBePrivate).catch(error => {
      if (options.signal.aborted) throw error;
      throw silenceFault(channel, request.url.host, file, error);
    });
    if (welcome.has(response.status)) {
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
async function follow(
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
