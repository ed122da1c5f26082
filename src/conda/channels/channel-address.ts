import { Fault } from '../../foundation/fault.ts';

/** Where a channel is that is only known by its name. Source: conda, Managing channels. */
const publicHost = 'https://conda.anaconda.org';
const publicPackages = 'https://repo.anaconda.com/pkgs';

/** A channel without the platforms in brackets, and these platforms. */
export interface WrittenChannel {
  readonly channel: string;
  /** Subdirectories that are used; undefined for all. */
  readonly subdirs: readonly string[] | undefined;
}

/** Reads `conda-forge[linux-64,noarch]`. */
export function readWrittenChannel(text: string): WrittenChannel {
  const [, channel = text, subdirs] = /^(.*?)\[([a-z0-9_,-]+)\]$/.exec(text) ?? [];
  return { channel: plainBase(channel), subdirs: subdirs?.split(',') };
}

/** Returns the channels that a name stands for: two for `defaults`, as conda has them on Linux. */
export function channelsOf(name: string): readonly string[] {
  return name === 'defaults' ? ['pkgs/main', 'pkgs/r'] : [name];
}

/** Returns the public base URL of a channel that is a name, and the URL itself of one that is a URL. Throws a `Fault`. */
export function publicBase(channel: string): string {
  if (isWebUrl(channel)) return plainBase(channel);
  if (/^[a-z][a-z0-9+.-]*:\/\//i.test(channel)) {
    throw new Fault(
      'bad-request',
      `The channel ${channel} has an address that cannot be read: write a name or an http(s) address`,
      { phase: 'request' },
    );
  }
  if (channel === 'main') return `${publicPackages}/main`;
  if (channel.startsWith('pkgs/')) return `${publicPackages}/${channel.slice('pkgs/'.length)}`;
  return `${publicHost}/${channel}`;
}

/** Returns the name of a channel of the public host by its base URL, and the base URL of any other. */
export function nameOfBase(base: string): string {
  const known = [publicHost, publicPackages].find(host => base.startsWith(`${host}/`));
  return known === undefined ? base : base.slice(known.length + 1);
}

export function isWebUrl(channel: string): boolean {
  return /^https?:\/\//i.test(channel) && URL.canParse(channel);
}

/** Returns a base URL in one form: without credentials, token, query and slash at the end. A name stays as it is. */
export function plainBase(channel: string): string {
  if (!isWebUrl(channel)) return channel.replace(/\/+$/, '');
  const url = new URL(channel);
  const path = url.pathname.replace(/^\/t\/[^/]+(?=\/|$)/, '').replace(/\/+$/, '');
  return `${url.origin}${path}`;
}

/** Returns the rest of an address below a base, with its first slash; undefined if the address is elsewhere. */
export function restBelow(base: string, url: string): string | undefined {
  return url.startsWith(`${base}/`) ? url.slice(base.length) : undefined;
}
