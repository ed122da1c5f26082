import type { z } from 'zod';
import { nearestName } from '../../foundation/nearest-name.ts';
import { type ProxyFor, readProxies } from '../../upstream/auth/index.ts';
import { ConfigError, type ConfigFile, readConfigFile } from './config-file.ts';
import { addressWarnings } from './read/addresses.ts';
import { webhook } from './sections/messages-schema.ts';
import { type Config, configSchema } from './settings-schema.ts';

export interface LoadedConfig {
  readonly config: Config;
  /** Risks of a valid configuration that the operator should know. */
  readonly warnings: readonly string[];
  /** From `HTTPS_PROXY`, `HTTP_PROXY` and `NO_PROXY`. */
  readonly proxyFor: ProxyFor;
  /** The settings as they were written, without defaults. */
  readonly written: Readonly<Record<string, unknown>>;
  /** Returns where a setting comes from. */
  originOf(path: readonly string[]): Origin;
}

/** Where a setting comes from. */
export type Origin =
  | { readonly kind: 'default' }
  | { readonly kind: 'file'; readonly file: string; readonly line: number | undefined }
  | { readonly kind: 'environment'; readonly variable: string };

// Variables that other parts read: the place of the file, the commit, the tools of the tests, and the command line's.
const otherVariables = [
  'SLUICE_CONFIG',
  'SLUICE_COMMIT',
  'SLUICE_TOOLS',
  'SLUICE_SERVER',
  'SLUICE_ACCOUNT',
  'SLUICE_TOKEN',
  'SLUICE_CA',
];

const variableStart = 'SLUICE_';

type Environment = Readonly<Record<string, string | undefined>>;

/**
 * Returns the settings. Environment variables take precedence over the YAML file that `SLUICE_CONFIG` names, and the
 * file over the defaults. Paths in the file are relative to it. Throws {@link ConfigError}.
 */
export function loadConfig(environment: Environment): LoadedConfig {
  const path = environment.SLUICE_CONFIG || undefined;
  const file = path === undefined ? undefined : readConfigFile(path);
  const written: Record<string, unknown> = { ...file?.values };
  const known = new Set(otherVariables);
  for (const { path: at, variable } of settings) {
    if (variable === undefined) continue;
    known.add(variable);
    const value = environment[variable];
    if (value !== undefined && value !== '') placeValue(written, at, value);
  }
  const sources = { environment, file };
  const result = configSchema.safeParse(written, { jitless: true });
  if (!result.success) {
    const faults = faultsIn(result.error, sources).map(sentenceOf);
    throw new ConfigError(`The configuration is wrong. ${faults.join('; ')}`);
  }
  const warnings = Object.keys(environment)
    .filter(name => name.startsWith(variableStart) && !known.has(name))
    .map(name => {
      // All of them begin in the same way, which must not make them similar.
      const nearest = nearestName(
        name.slice(variableStart.length),
        [...known].map(one => one.slice(variableStart.length)),
      );
      const meant = nearest === undefined ? '' : `: did you mean ${variableStart}${nearest}?`;
      return `The environment variable ${name} is not a setting of this version${meant}`;
    });
  return {
    config: result.data,
    warnings: [...warnings, ...openBuilders(result.data), ...addressWarnings(result.data)],
    proxyFor: proxiesOf(environment),
    written,
    originOf: at => originOf(at, sources),
  };
}

interface Sources {
  readonly environment: Environment;
  readonly file: ConfigFile | undefined;
}

function originOf(path: readonly string[], { environment, file }: Sources): Origin {
  const variable = variableOf(path);
  if (variable !== undefined && environment[variable]) return { kind: 'environment', variable };
  let value: unknown = file?.values;
  for (const name of path) value = (value as Record<string, unknown> | undefined | null)?.[name];
  if (file === undefined || value === undefined) return { kind: 'default' };
  return { kind: 'file', file: file.path, line: file.lineOf(path) };
}

function variableOf(path: readonly string[]): string | undefined {
  return settings.find(({ path: own }) => own.every((name, at) => name === path[at]))?.variable;
}

function proxiesOf(environment: Environment): ProxyFor {
  try {
    return readProxies(environment);
  } catch (error) {
    throw new ConfigError(error instanceof Error ? error.message : '');
  }
}

/** Certificates are the only protection of a builder on TCP. */
function openBuilders({ buildkit, buildkitTls }: Config): string[] {
  return buildkit
    .filter(address => /^(?:dns\+)?tcp:/.test(address) && !buildkitTls[address])
    .map(
      address =>
        `The builder ${address} has no TLS: every program that can connect to it controls it, including the steps of its builds. List its certificates in buildkitTls, or use a unix socket`,
    );
}

function placeValue(values: Record<string, unknown>, path: readonly string[], value: string): void {
  const [name = '', ...below] = path;
  if (below.length === 0) {
    values[name] = value;
    return;
  }
  const inner = values[name];
  const object = typeof inner === 'object' && inner !== null ? { ...inner } : {};
  values[name] = object;
  placeValue(object as Record<string, unknown>, below, value);
}

/** One fault of a configuration. */
export interface ConfigFault {
  /** Path in the file, or the environment variable; undefined when the message names it. */
  readonly setting: string | undefined;
  /** Line in the configuration file. */
  readonly line: number | undefined;
  readonly message: string;
}

/** Returns all faults that the schema finds. */
export function faultsIn(error: z.ZodError, { environment, file }: Sources): ConfigFault[] {
  return error.issues.flatMap(issue => {
    const path = issue.path.map(String);
    const variable = variableOf(path);
    const isVariable = variable !== undefined && environment[variable];
    const setting = isVariable ? variable : path.join('.') || undefined;
    const lineAt = (at: readonly string[]) => (isVariable ? undefined : file?.lineOf(at));
    if (issue.code !== 'unrecognized_keys') {
      return [{ setting, line: lineAt(path), message: messageOf(issue) }];
    }
    return issue.keys.map(key => ({
      setting,
      line: lineAt([...path, key]),
      message: `unknown setting: ${key}${suggestionFor(path, key)}`,
    }));
  });
}

/** Returns the most similar setting beside an unknown one, in brackets; empty if none is similar. */
function suggestionFor(above: readonly string[], key: string): string {
  const beside = allSettings
    .filter(({ path }) =>
      above.every((name, at) => path[at] === name || /^<.*>$/.test(path[at] ?? '')),
    )
    .flatMap(({ path }) => path[above.length] ?? []);
  const meant = nearestName(key, new Set(beside));
  return meant === undefined ? '' : ` (did you mean ${meant}?)`;
}

/** `'prefix' (line 3): expected ...`; a variable has no quotes. */
function sentenceOf({ setting, line, message }: ConfigFault): string {
  const name = setting?.startsWith('SLUICE_') ? setting : setting && `'${setting}'`;
  const place = [name, line === undefined ? undefined : `(line ${line})`];
  const start = place.filter(part => part !== undefined).join(' ');
  return start === '' ? message : `${start}: ${message}`;
}

/** The fault of a name in a map is inside the fault of the map. */
function messageOf(issue: z.core.$ZodIssue): string {
  const message = (issue.code === 'invalid_key' && issue.issues[0]?.message) || issue.message;
  return message.replace(/^Invalid (?:input|option): /, '');
}

/** One setting: its place in the file, its environment variable, and its meaning. */
export interface Setting {
  readonly path: readonly string[];
  /** Undefined for a setting that only the file can hold. */
  readonly variable: string | undefined;
  readonly description: string;
  readonly default: unknown;
  /** True for a password or token. */
  readonly isSecret: boolean;
}

// Maps whose names are hosts and addresses, and lists of objects.
const fileOnly = [
  ...[
    'registries',
    'channels',
    'pypi',
    'buildkitTls',
    'buildkitShares',
    'accountFiles',
    'webhooks',
  ],
];

/** All settings in the order of the schema, nested ones by their full path. */
export const settings: readonly Setting[] = settingsIn(configSchema, []);

/** The settings of one entry below `registries`. */
export const registrySettings = settingsOfEntry(configSchema.shape.registries, 'registries');

/** The settings of one entry below `channels`. */
export const channelSettings = settingsOfEntry(configSchema.shape.channels, 'channels');

/** The settings of one entry below `messages.webhooks`. */
export const webhookSettings = settingsIn(webhook, ['messages', 'webhooks', '<name>']).map(
  setting => ({ ...setting, variable: undefined }),
);
/** The settings of one entry below `pypi`. */
export const indexSettings = settingsOfEntry(configSchema.shape.pypi, 'pypi');

/** The settings of one entry below `buildkitTls`. */
export const builderTlsSettings = settingsOfEntry(configSchema.shape.buildkitTls, 'buildkitTls');

/** The settings of one entry below `buildkitShares`. */
export const builderShareSettings = settingsOfEntry(
  configSchema.shape.buildkitShares,
  'buildkitShares',
);

/** The settings of one entry of `accountFiles`. */
export const accountFileSettings = settingsIn(configSchema.shape.accountFiles.unwrap().element, [
  'accountFiles',
  '<entry>',
]).map(setting => ({ ...setting, variable: undefined }));

/** All settings, also those of entries of maps and lists. */
const allSettings: readonly Setting[] = [
  ...settings,
  ...registrySettings,
  ...channelSettings,
  ...webhookSettings,
  ...indexSettings,
  ...builderTlsSettings,
  ...builderShareSettings,
  ...accountFileSettings,
];

function settingsOfEntry(map: z.ZodDefault<z.ZodRecord>, name: string): readonly Setting[] {
  const entry = map.unwrap().valueType as z.ZodObject;
  return settingsIn(entry, [name, '<name>']).map(setting => ({ ...setting, variable: undefined }));
}

function settingsIn(object: z.ZodObject, above: readonly string[]): Setting[] {
  return Object.entries(object.shape).flatMap(([name, schema]) => {
    const path = [...above, name];
    const inner = unwrappedSchema(schema as z.ZodType);
    if (inner.def.type === 'object') return settingsIn(inner as z.ZodObject, path);
    return [
      {
        path,
        variable: fileOnly.includes(name) ? undefined : variableName(path),
        description: (schema as z.ZodType).description ?? '',
        default: defaultOf(schema as z.ZodType),
        isSecret: (schema as z.ZodType).meta()?.secret === true,
      },
    ];
  });
}

/** `limits.pulls.anonymous` is `SLUICE_LIMITS_PULLS_ANONYMOUS`. */
function variableName(path: readonly string[]): string {
  const words = path.map(name => name.replace(/[A-Z]/g, letter => `_${letter}`).toUpperCase());
  return `SLUICE_${words.join('_')}`;
}

function unwrappedSchema(schema: z.ZodType): z.ZodType {
  const def = schema.def as { type: string; innerType?: z.ZodType };
  return def.innerType && ['default', 'prefault', 'optional'].includes(def.type)
    ? unwrappedSchema(def.innerType)
    : schema;
}

function defaultOf(schema: z.ZodType): unknown {
  const def = schema.def as { type: string; defaultValue?: unknown };
  return def.type === 'default' || def.type === 'prefault' ? def.defaultValue : undefined;
}
