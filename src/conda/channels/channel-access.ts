import type { UpstreamResponse } from '../../upstream/index.ts';
import type { NamedChannel } from './channel-lookup.ts';

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

export interface OpenOptions {
  readonly headers?: Readonly<Record<string, string>>;
  readonly signal: AbortSignal;
}
