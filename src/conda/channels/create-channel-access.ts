import type { Answer, Hop, Transport } from '../../upstream/index.ts';
import {
  nextHop,
  type RetryPolicy,
  redirected,
  withRetries,
} from '../../upstream/transport/index.ts';
import type { ChannelAccess, OpenOptions } from './channel-access.ts';
import { plainBase, restBelow } from './channel-address.ts';
import { ChannelFault, silenceFault, statusFault } from './channel-fault.ts';
import { createChannelLookup } from './channel-lookup.ts';
import type { ChannelSettings } from './channel-settings.ts';
import { type CredentialWay, createCredentialWays } from './credential-ways.ts';

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
  readonly ways: readonly CredentialWay[];
  readonly mayBePrivate: boolean;
}

const maxRedirects = 5;
const welcome = new Set([200, 206, 304]);

export function createChannelAccess(deps: ChannelAccessDeps): ChannelAccess {
  const { channels } = deps;
  const waysTo = createCredentialWays(channels);
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
        places: [{ url, ways: waysTo(undefined, url), mayBePrivate: false }],
      };
    }
    const { settings, rest } = found;
    const places = [...settings.mirrors, settings.url].map(base => ({
      url: `${base}${rest}`,
      ways: waysTo(settings, base),
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

/** Tries the ways in which the place may take its credentials. Remembers the way that was accepted. */
async function openPlace(
  deps: ChannelAccessDeps,
  place: Place,
  channel: string,
  file: string,
  options: OpenOptions,
): Promise<Answer> {
  let status = 0;
  for (const way of place.ways) {
    const hop: Hop = {
      url: new URL(way.place(place.url)),
      method: 'GET',
      headers: { ...options.headers, ...way.headers },
      signal: options.signal,
    };
    const answer = await follow(deps, hop, place.mayBePrivate).catch(error => {
      if (options.signal.aborted) throw error;
      throw silenceFault(channel, hop.url.host, file, error);
    });
    if (welcome.has(answer.status)) {
      way.accepted();
      return answer;
    }
    answer.body.destroy();
    ({ status } = answer);
    if (![401, 403, 404].includes(status)) break;
  }
  throw statusFault(channel, file, status);
}

/** Sends a request and follows redirects. A closed address may be left for another one of the same origin only. */
async function follow(deps: ChannelAccessDeps, first: Hop, mayBePrivate: boolean): Promise<Answer> {
  let hop = first;
  for (let redirects = 0; redirects <= maxRedirects; redirects += 1) {
    const isHome = hop.url.origin === first.url.origin;
    const transport = mayBePrivate && isHome ? deps.transport : deps.guarded;
    const answer = await withRetries(deps.retry, hop.signal, () => transport.sendBlob(hop)).catch(
      error => {
        throw hop === first ? error : redirected(error, first.url, hop.url);
      },
    );
    const next = nextHop(hop, answer);
    if (!next) return answer;
    answer.body.destroy();
    hop = next;
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
