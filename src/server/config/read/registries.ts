import { readFileSync } from 'node:fs';
import { channelKey, pathTokenIn, plainBase, publicBase } from '../../../conda/channels/index.ts';
import type { ChannelCredentials, ChannelSettings } from '../../../conda/index.ts';
import { whyUnreadable } from '../../../foundation/fault.ts';
import { withoutSlashes } from '../../../foundation/text.ts';
import { canonicalRegistry } from '../../../oci/naming.ts';
import type { IndexSettings } from '../../../pypi/index.ts';
import {
  type CredentialSource,
  dockerConfigCredentials,
  firstOf,
} from '../../../upstream/auth/index.ts';
import type { Registries, RegistrySettings } from '../../../upstream/index.ts';
import { ConfigError } from '../config-file.ts';
import type { Config } from '../settings-schema.ts';

/** Returns the settings of registries by canonical host, including Sluice's own host. */
export function configuredRegistries(config: Config, publicUrl: URL): Registries {
  const own: RegistrySettings = {
    anonymous: false,
    plainHttp: publicUrl.protocol === 'http:',
    mirrors: [],
    allowPrivateAddress: true,
    blobs: 'redirect',
    tokenHosts: [],
  };
  const listed = Object.entries(config.registries).map(
    ([host, settings]) => [canonicalRegistry(host), registrySettings(host, settings)] as const,
  );
  return new Map([[publicUrl.host, own], ...listed]);
}

/** Returns credentials by exact host: those of the configuration, then Docker's, from its variable and its file. */
export function configuredCredentials(
  registries: Registries,
  config: Config,
  dockerAuthConfig: string | undefined,
): CredentialSource {
  const sources: CredentialSource[] = [
    async registry => registries.get(canonicalRegistry(registry))?.credentials,
  ];
  if (dockerAuthConfig) sources.push(fromDocker('DOCKER_AUTH_CONFIG', () => dockerAuthConfig));
  const path = config.dockerConfig;
  if (path !== undefined) sources.push(fromDocker(path, () => readFileSync(path, 'utf8')));
  return firstOf(...sources);
}

/** Returns the operator's credentials that also serve callers without a login, according to the registry's settings. */
export function anonymousCredentials(
  registries: Registries,
  credentials: CredentialSource,
): CredentialSource {
  return async (registry, repository) =>
    registries.get(canonicalRegistry(registry))?.anonymous
      ? credentials(registry, repository)
      : undefined;
}

/** Returns warnings for mirrors whose credentials are not used, because a mirror serves all callers. */
export function uselessMirrorCredentials(
  registries: Registries,
): readonly { readonly setting: string; readonly why: string }[] {
  const mirrors = new Set([...registries.values()].flatMap(({ mirrors }) => mirrors));
  return [...registries]
    .filter(([host, own]) => mirrors.has(host) && own.credentials && !own.anonymous)
    .map(([host]) => ({
      setting: `registries.${host}.anonymous`,
      why: `The mirror ${host} serves all callers, so Sluice does not send its credentials: set 'anonymous: true' for it if all callers may pull its images`,
    }));
}

function registrySettings(
  host: string,
  { username, password, ca, ...rest }: Config['registries'][string],
): RegistrySettings {
  if ((username === undefined) !== (password === undefined)) {
    throw new ConfigError(
      `registries.${host}: 'username' and 'password' go together: set both, or neither`,
    );
  }
  return {
    ...rest,
    mirrors: rest.mirrors.map(canonicalRegistry),
    ...(username === undefined || password === undefined
      ? {}
      : { credentials: { kind: 'password', username, password } }),
    ...(ca === undefined ? {} : { ca: readAuthority(`registries.${host}`, ca) }),
  };
}

function fromDocker(name: string, read: () => string): CredentialSource {
  try {
    return dockerConfigCredentials(read());
  } catch (cause) {
    // Leaves out the parser's message, which would show a part of the file.
    const why = cause instanceof Error && 'code' in cause ? ` (${whyUnreadable(cause)})` : '';
    throw new ConfigError(
      `${name} cannot be read as a Docker configuration${why}: use the config.json that 'docker login' writes`,
      { cause },
    );
  }
}

type Entry = Config['channels'][string];

/** Returns the settings of the listed channels. Throws {@link ConfigError}. */
export function configuredChannels({ channels }: Pick<Config, 'channels'>): ChannelSettings[] {
  return Object.entries(channels).map(([key, entry]) => channelSettings(key, entry));
}

/** Returns the settings of the listed indexes of Python packages. Throws {@link ConfigError}. */
export function configuredIndexes({ pypi }: Pick<Config, 'pypi'>): IndexSettings[] {
  return Object.entries(pypi).map(([key, entry]) => {
    const base = withoutSlashes(key);
    const { credentials, ...settings } = channelSettings(base, entry, `pypi.${base}`);
    const given =
      credentials?.kind === 'token' ? { ...credentials, kind: 'bearer' as const } : credentials;
    return { ...settings, keys: [base], ...(given === undefined ? {} : { credentials: given }) };
  });
}

function channelSettings(key: string, entry: Entry, setting = settingOf(key)): ChannelSettings {
  const { url, mirrors, ca, allowPrivateAddress } = entry;
  const credentials = credentialsOf(key, entry, setting);
  return {
    keys: [channelKey(key)],
    url: plainBase(url ?? publicBase(key)),
    mirrors: mirrors.map(plainBase),
    allowPrivateAddress,
    ...(credentials === undefined ? {} : { credentials }),
    ...(ca === undefined ? {} : { ca: readAuthority(setting, ca) }),
  };
}

function credentialsOf(key: string, entry: Entry, setting: string): ChannelCredentials | undefined {
  const url = new URL(entry.url ?? publicBase(key));
  const written = pathTokenIn(url.pathname);
  const username = entry.username ?? (decodeURIComponent(url.username) || undefined);
  const password = entry.password ?? (decodeURIComponent(url.password) || undefined);
  if ((username === undefined) !== (password === undefined)) {
    throw new ConfigError(
      `${setting}: 'username' and 'password' go together: set both, or neither`,
    );
  }
  const token = entry.token ?? written?.token;
  if (token !== undefined && username !== undefined) {
    throw new ConfigError(`${setting}: list either a token, or a user name and a password`);
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

/** Returns the PEM text of a setting that holds it, or the name of its file. Throws {@link ConfigError}. */
export function readAuthority(setting: string, ca: string): string {
  if (ca.includes('-----BEGIN')) return ca;
  try {
    return readFileSync(ca, 'utf8');
  } catch (cause) {
    throw new ConfigError(`${setting}.ca: the file ${ca} cannot be read: ${whyUnreadable(cause)}`, {
      cause,
    });
  }
}
