import { channelKey, pathTokenIn, plainBase, publicBase } from '../../../conda/channels/index.ts';
import type { ChannelCredentials, ChannelSettings } from '../../../conda/index.ts';
import { ConfigError } from '../config-error.ts';
import type { Config } from '../settings-schema.ts';
import { readAuthority } from './authority-file.ts';

type Entry = Config['channels'][string];

/** Returns the settings of the listed channels. Throws {@link ConfigError}. */
export function configuredChannels({ channels }: Pick<Config, 'channels'>): ChannelSettings[] {
  return Object.entries(channels).map(([key, entry]) => channelSettings(key, entry));
}

function channelSettings(key: string, entry: Entry): ChannelSettings {
  const { url, mirrors, ca, allowPrivateAddress } = entry;
  const credentials = credentialsOf(key, entry);
  return {
    keys: [channelKey(key)],
    url: plainBase(url ?? publicBase(key)),
    mirrors: mirrors.map(plainBase),
    allowPrivateAddress,
    ...(credentials === undefined ? {} : { credentials }),
    ...(ca === undefined ? {} : { ca: readAuthority(settingOf(key), ca) }),
  };
}

function credentialsOf(key: string, entry: Entry): ChannelCredentials | undefined {
  const url = new URL(entry.url ?? publicBase(key));
  const written = pathTokenIn(url.pathname);
  const username = entry.username ?? (decodeURIComponent(url.username) || undefined);
  const password = entry.password ?? (decodeURIComponent(url.password) || undefined);
  if ((username === undefined) !== (password === undefined)) {
    throw new ConfigError(
      `${settingOf(key)}: 'username' and 'password' go together: set both, or neither`,
    );
  }
  const token = entry.token ?? written?.token;
  if (token !== undefined && username !== undefined) {
    throw new ConfigError(`${settingOf(key)}: list either a token, or a user name and a password`);
  }
  if (username !== undefined && password !== undefined) {
    return { kind: 'password', username, password };
  }
  if (token === undefined) return undefined;
  const place = written?.above ? { above: written.above } : {};
  return entry.token === undefined
    ? { kind: 'path-token', token: decodeURIComponent(token), ...place }
    : { kind: 'token', token, ...place };
}

/** A name that is a URL may hold a secret itself. */
function settingOf(key: string): string {
  return `channels.${plainBase(key)}`;
}
