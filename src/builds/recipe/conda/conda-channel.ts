import { oneLine } from '../text/one-line.ts';
import { refuse, shown } from '../text/refuse.ts';
import { isUrl, refusePathToken, tokenFreeUrl } from '../text/web-address.ts';

/** Channels for a request that lists none: those of the specification's examples. */
const defaultChannels: readonly string[] = ['conda-forge', 'bioconda'];

// A name with labels or subdirectories, and the platforms in brackets that mamba accepts.
const channelName = /^[A-Za-z0-9_][A-Za-z0-9_./-]*(?:\[[a-z0-9_,-]+\])?$/;

/** Reads a channel: its name, such as `bioconda` or `conda-forge/label/dev`, or its address. Throws a `Fault`. */
export function readChannel(field: string, text: string): string {
  const channel = oneLine(field, text);
  if (isUrl(channel)) return tokenFreeUrl(field, channel, ['http', 'https', 'file', 'oci']);
  refusePathToken(field, channel);
  if (channelName.test(channel)) return channel;
  refuse(`'${field}': ${shown(channel)} is not a conda channel: write its name or its address`);
}

/**
 * Returns the channels in their order, each once: the first has priority. Omits `nodefaults`, since only listed
 * channels are ever used. Returns the default channels for an empty list.
 */
export function orderedChannels(channels: readonly string[]): readonly string[] {
  const listed = new Set(channels.filter(channel => channel !== 'nodefaults'));
  return listed.size > 0 ? [...listed] : defaultChannels;
}
