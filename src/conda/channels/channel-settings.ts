import {
  defaultRegistrySettings,
  type Registries,
  type RegistrySettings,
} from '../../upstream/index.ts';

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

/** How a channel knows its readers. A `token` is sent as a bearer token, or in the path where the channel wants that. */
export type ChannelCredentials =
  | { readonly kind: 'password'; readonly username: string; readonly password: string }
  | ({ readonly kind: 'token' | 'path-token' } & ChannelToken);

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
