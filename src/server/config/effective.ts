import { maskAddresses } from '../../buildkit/index.ts';
import {
  builderTlsSettings,
  channelSettings,
  indexSettings,
  type LoadedConfig,
  type Origin,
  registrySettings,
  type Setting,
  settings,
  webhookSettings,
} from './load.ts';
import { accessRules, configuredPlaces, configuredShares } from './read/access-in-force.ts';
import { publicUrlOf } from './read/addresses.ts';

/** A setting as the server uses it. */
export interface EffectiveSetting {
  /** Path in the configuration file, such as `limits.pulls.anonymous`. */
  readonly name: string;
  /** The value as written; undefined for a setting that is off or decided at run time. */
  readonly value: unknown;
  readonly origin: Origin;
}

const mask = '***';
const secretNames = new Set(
  [
    ...[...settings, ...registrySettings, ...channelSettings, ...indexSettings],
    ...[...builderTlsSettings, ...webhookSettings],
  ]
    .filter(({ isSecret }) => isSecret)
    .map(({ path }) => path.at(-1)),
);

/** Returns all settings in the order of the schema. Passwords and tokens are masked. */
export function effectiveSettings(loaded: LoadedConfig): EffectiveSetting[] {
  const derived = derivedValues(loaded);
  return settings.flatMap(setting => {
    const { path } = setting;
    const name = path.join('.');
    const written = valueAt(loaded.written, path);
    const origin = loaded.originOf(path);
    if (setting.variable === undefined) return entriesOf(loaded, path, written);
    if (name === 'accounts') return accountsOf(loaded, origin);
    return [{ name, value: shown(setting, written ?? setting.default ?? derived[name]), origin }];
  });
}

/** Returns the values that the server uses where neither a value nor a default is declared. */
function derivedValues({ config }: LoadedConfig): Readonly<Record<string, unknown>> {
  const publicUrl = publicUrlOf(config);
  const { requests, builds, pulls } = accessRules(config, publicUrl);
  const { concurrent, waiting } = configuredShares(config, publicUrl);
  const places = configuredPlaces(config, publicUrl);
  return {
    url: publicUrl.origin,
    'access.requests': requests,
    'access.builds': builds,
    'access.pulls': pulls,
    'builds.concurrentPerCaller': concurrent.ofOne,
    'builds.concurrentAnonymous': concurrent.ofAnonymous,
    'builds.maxWaitingAnonymous': waiting.ofAnonymous,
    buildRepository: places.repository,
    freezeRepository: places.local?.docker,
    freezeSifRepository: config.freezeRepository ?? places.local?.sif,
    'platform.url': new URL('/platform', publicUrl).href,
  };
}

function accountsOf({ config }: LoadedConfig, origin: Origin): EffectiveSetting[] {
  const accounts = Object.entries(config.accounts);
  if (accounts.length === 0) return [{ name: 'accounts', value: undefined, origin }];
  return accounts.map(([name, { repositories }]) => ({
    name: `accounts.${name}`,
    value: repositories ? { password: mask, repositories } : mask,
    origin,
  }));
}

/** Returns the leaves of a map or list that only the file can hold. */
function entriesOf(
  loaded: LoadedConfig,
  path: readonly string[],
  value: unknown,
): EffectiveSetting[] {
  if (typeof value === 'object' && value !== null) {
    return Object.entries(value).flatMap(([name, inner]) =>
      entriesOf(loaded, [...path, name], inner),
    );
  }
  if (value === undefined) {
    return [{ name: path.join('.'), value: undefined, origin: loaded.originOf(path) }];
  }
  const isSecret = secretNames.has(path.at(-1));
  return [
    {
      name: path.join('.'),
      value: isSecret ? mask : withoutPassword(value),
      origin: loaded.originOf(path),
    },
  ];
}

function shown({ isSecret }: Setting, value: unknown): unknown {
  if (value === undefined) return undefined;
  return isSecret ? mask : withoutPassword(value);
}

/** A URL may contain a name and a password, and that of a conda channel a token. */
function withoutPassword(value: unknown): unknown {
  return typeof value === 'string'
    ? maskAddresses(value.replace(/(?<=:\/\/)[^/@\s]+@/g, `${mask}@`))
    : value;
}

function valueAt(values: unknown, path: readonly string[]): unknown {
  return path.reduce<unknown>(
    (value, name) => (value as Record<string, unknown> | null | undefined)?.[name],
    values,
  );
}
