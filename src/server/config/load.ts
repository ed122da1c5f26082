import type { z } from 'zod';
import { type ProxyFor, readProxies } from '../../upstream/transport/proxy.ts';
import { ConfigError } from './config-error.ts';
import { type ConfigFile, readConfigFile } from './config-file.ts';
import { settings } from './settings.ts';
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

type Environment = Readonly<Record<string, string | undefined>>;

/**
 * Returns the settings: those of the environment win over those of the YAML file that `SLUICE_CONFIG` names, which win
 * over the defaults. Paths in the file are relative to it. Throws {@link ConfigError}.
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
    if (value !== undefined && value !== '') place(written, at, value);
  }
  const sources = { environment, file };
  const result = configSchema.safeParse(written);
  if (!result.success) {
    const faults = faultsIn(result.error, sources);
    throw new ConfigError(`The configuration is wrong. ${faults.join('; ')}`);
  }
  const warnings = Object.keys(environment)
    .filter(name => name.startsWith('SLUICE_') && !known.has(name))
    .map(name => `The environment variable ${name} is not a setting of this version`);
  return {
    config: result.data,
    warnings: [...warnings, ...openBuilders(result.data)],
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

/** A builder on TCP has no other protection than certificates. */
function openBuilders({ buildkit, buildkitTls }: Config): string[] {
  return buildkit
    .filter(address => address.startsWith('tcp:') && !buildkitTls[address])
    .map(
      address =>
        `The builder ${address} has no TLS: every program that can connect to it controls it, including the steps of its builds. List its certificates in buildkitTls, or use a unix socket`,
    );
}

function place(values: Record<string, unknown>, path: readonly string[], value: string): void {
  const [name = '', ...below] = path;
  if (below.length === 0) {
    values[name] = value;
    return;
  }
  const inner = values[name];
  const object = typeof inner === 'object' && inner !== null ? { ...inner } : {};
  values[name] = object;
  place(object as Record<string, unknown>, below, value);
}

/** One sentence for each wrong setting: its name, its line in the file, and what is wrong. */
export function faultsIn(error: z.ZodError, { environment, file }: Sources): string[] {
  return error.issues.flatMap(issue => {
    const path = issue.path.map(String);
    const variable = variableOf(path);
    const isVariable = variable !== undefined && environment[variable];
    const name = isVariable ? variable : `'${path.join('.')}'`;
    const nameAt = (at: readonly string[]): string => {
      const line = isVariable ? undefined : file?.lineOf(at);
      return line === undefined ? '' : ` (line ${line})`;
    };
    if (issue.code !== 'unrecognized_keys') return [`${name}${nameAt(path)}: ${messageOf(issue)}`];
    const prefix = path.length > 0 ? `${name}: ` : '';
    return issue.keys.map(key => `${prefix}unknown setting: ${key}${nameAt([...path, key])}`);
  });
}

/** What is wrong with a name in a map stands inside of what is wrong with the map. */
function messageOf(issue: z.core.$ZodIssue): string {
  const message = (issue.code === 'invalid_key' && issue.issues[0]?.message) || issue.message;
  return message.replace(/^Invalid (?:input|option): /, '');
}
