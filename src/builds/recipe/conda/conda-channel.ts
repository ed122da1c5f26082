import { oneLine } from '../text/one-line.ts';
import { refuse, shown } from '../text/refuse.ts';
import { isUrl, plainUrl } from '../text/web-address.ts';

/** Where packages come from when a request does not say: what the specification's examples use. */
const defaultChannels: readonly string[] = ['conda-forge', 'bioconda'];

// A name with labels or subdirectories, and the platforms that mamba takes in brackets.
const channelName = /^[A-Za-z0-9_][A-Za-z0-9_./-]*(?:\[[a-z0-9_,-]+\])?$/;

/** A channel: its name, such as `bioconda` or `conda-forge/label/dev`, or its address. Throws a `Fault`. */
export function readChannel(field: string, text: string): string {
  const channel = oneLine(field, text);
  if (isUrl(channel)) {
    const url = plainUrl(field, channel, ['http', 'https', 'file', 'oci']);
    if (/:\/\/[^/]+\/t\/./.test(url)) {
      refuse(
        `'${field}' contains a token in an address: recipes and logs are not secret, so remove it`,
      );
    }
    return url;
  }
  if (channelName.test(channel)) return channel;
  refuse(`'${field}': ${shown(channel)} is not a conda channel: write its name or its address`);
}

/**
 * The channels in their order, each once: the first has priority. `nodefaults` is left out, since
 * nothing but what is listed is ever asked; an empty list stands for the default channels.
 */
export function orderedChannels(channels: readonly string[]): readonly string[] {
  const listed = new Set(channels.filter(channel => channel !== 'nodefaults'));
  return listed.size > 0 ? [...listed] : defaultChannels;
}
