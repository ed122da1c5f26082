import {
  defaultRegistrySettings,
  type Registries,
  type RegistrySettings,
} from '../../upstream/index.ts';
import { channelKey, publicBase, readWrittenChannel, restBelow } from './channel-address.ts';

/** The operator's settings for one channel. */
export interface ChannelSettings {
  /** Names and base URLs that mean this channel. */
  readonly keys: readonly string[];
  /** The base URL, without credentials and without a slash at the end. */
  readonly url: string;
  /** Base URLs to try first, in order. */
  readonly mirrors: readonly string[];
  readonly credentials?: ChannelCredentials;
  /** PEM text of the certificate authorities to trust for this channel, in addition to the system's. */
  readonly ca?: string;
  readonly allowPrivateAddress: boolean;
}

/**
 * How a channel knows its readers. A `token` is sent as a bearer token, or in the path where the channel wants that; `bearer`, as
 * indexes of Python packages have it, never in the path.
 */
export type ChannelCredentials =
  | { readonly kind: 'password'; readonly username: string; readonly password: string }
  | ({ readonly kind: 'token' | 'path-token' | 'bearer' } & ChannelToken);

export interface ChannelToken {
  readonly token: string;
  /** The path in front of `/t/<token>`. Default: none, directly after the host. */
  readonly above?: string;
}

/** Returns the hosts of channels with the authorities to trust and the right to closed addresses, for the transport. */
export function hostsOfChannels(channels: readonly ChannelSettings[]): Registries {
  const hosts = new Map<string, RegistrySettings>();
  for (const { url, mirrors, ca, allowPrivateAddress } of channels) {
    for (const base of [url, ...mirrors]) {
      const { host } = new URL(base);
      const known = hosts.get(host) ?? defaultRegistrySettings;
      const trusted = [...new Set([known.ca, ca].filter(text => text !== undefined))].join('\n');
      hosts.set(host, {
        ...known,
        allowPrivateAddress: known.allowPrivateAddress || allowPrivateAddress,
        ...(trusted === '' ? {} : { ca: trusted }),
      });
    }
  }
  return hosts;
}

/** A channel by its name, or by its URL. */
export interface NamedChannel {
  readonly name: string;
  /** Base URL. */
  readonly url: string;
  /** The settings that list the channel or one above it; undefined if none does. */
  readonly settings: ChannelSettings | undefined;
}

/** Finds channels in the configuration. */
interface ChannelLookup {
  /** Returns the channel of a name or URL, whose platforms are not written in it. Throws a `Fault`. */
  find(name: string): NamedChannel;
  /**
   * Returns the channels that a written channel stands for: two for `defaults`, as conda has them on Linux, unless it is
   * listed itself. Throws a `Fault`.
   */
  channelsOf(written: string): readonly NamedChannel[];
}

export function createChannelLookup(channels: readonly ChannelSettings[]): ChannelLookup {
  // The key of one entry may be the URL of another.
  const listed = [
    ...channels.flatMap(settings => settings.keys.map(key => ({ key: channelKey(key), settings }))),
    ...channels.map(settings => ({ key: settings.url, settings })),
  ].toSorted((a, b) => b.key.length - a.key.length);

  const find = (name: string): NamedChannel => {
    const key = channelKey(name);
    for (const { key: above, settings } of listed) {
      const rest = key === above ? '' : restBelow(above, key);
      if (rest !== undefined) return { name, url: `${settings.url}${rest}`, settings };
    }
    return { name, url: publicBase(key), settings: undefined };
  };

  const isListed = listed.some(({ key }) => key === 'defaults');
  return {
    find,
    channelsOf(written) {
      const { channel } = readWrittenChannel(written);
      const names = channel === 'defaults' && !isListed ? ['pkgs/main', 'pkgs/r'] : [channel];
      return names.map(find);
    },
  };
}

/**
 * Where the package manager of a builder finds the channels of the configuration. It gets no credentials. A name alone would
 * be the public channel of that name.
 */
export interface BuilderChannels {
  /**
   * Returns what to write for a channel: its text, or the base URLs that the configuration has for it.
   *
   * @param written a channel as the caller writes it, such as `conda-forge[linux-64]`
   */
  reached(written: string): readonly string[];
  /** Returns whether the configuration has credentials for a channel. */
  isClosed(written: string): boolean;
}

export function createBuilderChannels(channels: readonly ChannelSettings[]): BuilderChannels {
  const lookup = createChannelLookup(channels);
  return {
    reached(written) {
      // A package manager also knows channels at addresses that no configuration can list.
      if (isOther(written)) return [written];
      const found = lookup.channelsOf(written);
      if (found.every(({ name, url }) => url === publicBase(name))) return [written];
      const { subdirs } = readWrittenChannel(written);
      const only = subdirs === undefined ? '' : `[${subdirs.join(',')}]`;
      return found.map(({ name, url, settings }) => `${settings ? url : name}${only}`);
    },
    isClosed(written) {
      if (isOther(written)) return false;
      return lookup.channelsOf(written).some(one => one.settings?.credentials !== undefined);
    },
  };
}

function isOther(written: string): boolean {
  return /^[a-z][a-z0-9+.-]*:\/\//i.test(written) && !/^https?:\/\//i.test(written);
}
