import { publicBase, readWrittenChannel } from './channel-address.ts';
import { createChannelLookup } from './channel-lookup.ts';
import type { ChannelSettings } from './channel-settings.ts';

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
