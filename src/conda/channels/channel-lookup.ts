import { channelKey, publicBase, readWrittenChannel, restBelow } from './channel-address.ts';
import type { ChannelSettings } from './channel-settings.ts';

/** A channel by its name, or by its URL. */
export interface NamedChannel {
  readonly name: string;
  /** Base URL. */
  readonly url: string;
  /** The settings that list the channel or one above it; undefined if none does. */
  readonly settings: ChannelSettings | undefined;
}

/** Finds channels in the configuration. */
export interface ChannelLookup {
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
