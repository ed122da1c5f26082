import type { ChannelAccess } from '../channels/channel-access.ts';
import { readWrittenChannel } from '../channels/channel-address.ts';
import { ChannelFault } from '../channels/channel-fault.ts';
import type { OpenedRepodata, OpenRepodata, RepodataStore } from '../repodata/repodata-store.ts';
import type { SolveRequest } from './conda-solver.ts';
import type { SubdirOrder } from './solve-thread.ts';

/** A channel of an environment. */
export interface WantedChannel {
  /** As the caller wrote it. */
  readonly name: string;
  /** Base URL. */
  readonly url: string;
  readonly subdirs: readonly string[];
  /** The package that names the channel; undefined for one in the list of channels. */
  readonly askedBy: string | undefined;
  /** Packages that must come from another channel. */
  readonly hidden: readonly string[];
}

/**
 * Returns the channels of an environment in their order, each once, and then those that only packages name. Throws a
 * `Fault`.
 *
 * @param channelOf the channel that a package must come from, by its name
 */
export function wantedChannels(
  request: SolveRequest,
  channelOf: ReadonlyMap<string, string>,
  channels: ChannelAccess,
): readonly WantedChannel[] {
  const urlsOf = (written: string) => channels.channelsOf(written).map(({ url }) => url);
  const pins = [...channelOf].map(([name, channel]) => ({ name, urls: urlsOf(channel) }));
  const named = request.channels.map(written => ({ written, askedBy: undefined }));
  const pinned = [...channelOf].map(([askedBy, written]) => ({ written, askedBy }));
  const wanted = [...named, ...pinned].flatMap(({ written, askedBy }) => {
    const { subdirs } = readWrittenChannel(written);
    return channels.channelsOf(written).map(({ name, url }) => ({
      name,
      url,
      askedBy,
      subdirs: [request.subdir, 'noarch'].filter(subdir => subdirs?.includes(subdir) ?? true),
      hidden: pins.filter(({ urls }) => !urls.includes(url)).map(pin => pin.name),
    }));
  });
  return [...new Map(wanted.toReversed().map(one => [one.url, one])).values()].toReversed();
}

/**
 * Opens the repository data of all subdirectories, all at once. Throws a `Fault` for a channel that has none of them.
 *
 * @param take receives what is to be closed, also after others failed
 */
export async function openSubdirs(
  repodata: RepodataStore,
  wanted: readonly WantedChannel[],
  options: OpenRepodata,
  take: (opened: OpenedRepodata) => void,
): Promise<readonly SubdirOrder[]> {
  const openOne = async (channel: WantedChannel, subdir: string): Promise<SubdirOrder> => {
    const { url, subdirs, hidden } = channel;
    const absent = { url: `${url}/${subdir}`, subdir, hidden, path: undefined, shards: undefined };
    if (!subdirs.includes(subdir)) return absent;
    const found = await repodata.open(url, subdir, options);
    if (found === undefined) return absent;
    take(found);
    return { url: found.url, subdir, hidden, path: found.path, shards: found.shards };
  };
  const openChannel = async (channel: WantedChannel): Promise<readonly SubdirOrder[]> => {
    const both = [...new Set([...channel.subdirs, 'noarch'])];
    const found = await Promise.all(both.map(subdir => openOne(channel, subdir))).catch(error => {
      throw withPackage(error, channel);
    });
    if (found.every(({ path }) => path === undefined))
      throw withPackage(nothingThere(channel), channel);
    return found;
  };
  return (await Promise.all(wanted.map(openChannel))).flat();
}

/** Returns the failure of a channel that a package names with the package: the caller may not know of the channel. */
function withPackage(error: unknown, { askedBy }: WantedChannel): unknown {
  if (!(error instanceof ChannelFault) || askedBy === undefined) return error;
  const { message, responseStatus, phase, cause } = error;
  return new ChannelFault(
    `${message}. The package ${askedBy} asks for this channel`,
    responseStatus,
    {
      askedBy,
      cause,
      ...(phase === undefined ? {} : { phase }),
    },
  );
}

function nothingThere({ name, url, subdirs }: WantedChannel): ChannelFault {
  const shown = name === url ? name : `${name} (${url})`;
  return new ChannelFault(
    subdirs.length === 0
      ? `The channel ${shown} is limited to platforms that the image does not have: leave out its platforms`
      : `The channel ${shown} has no repository data for ${subdirs.join(' or ')} (404): check its name or address`,
    404,
  );
}
