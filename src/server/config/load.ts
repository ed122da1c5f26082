import { readFileSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { parse, YAMLParseError } from 'yaml';
import type { z } from 'zod';
import { type ProxyFor, readProxies } from '../../upstream/transport/proxy.ts';
import { settings } from './settings.ts';
import { type Config, configSchema } from './settings-schema.ts';

export interface LoadedConfig {
  readonly config: Config;
  /** What the operator should hear although the configuration is good. */
  readonly warnings: readonly string[];
  /** From `HTTPS_PROXY`, `HTTP_PROXY` and `NO_PROXY`. */
  readonly proxyFor: ProxyFor;
}

/** A configuration that cannot be used; the message names the setting and what is wrong with it. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError';
}

// Variables that are read elsewhere: where the file is, which commit this is, where the tests have their tools,
// whom the command line acts as, and what it trusts.
const variablesBeside = [
  'SLUICE_CONFIG',
  'SLUICE_COMMIT',
  'SLUICE_TOOLS',
  'SLUICE_ACCOUNT',
  'SLUICE_TOKEN',
  'SLUICE_CA',
];

type Environment = Readonly<Record<string, string | undefined>>;

/**
 * The settings: those of the environment win over those of the YAML file that `SLUICE_CONFIG` names,
 * which win over the defaults. Paths in the file are relative to it. Throws {@link ConfigError}.
 */
export function loadConfig(environment: Environment): LoadedConfig {
  const path = environment.SLUICE_CONFIG || undefined;
  const values = path === undefined ? {} : readConfigFile(path);
  const known = new Set(variablesBeside);
  for (const { path: at, variable } of settings) {
    if (variable === undefined) continue;
    known.add(variable);
    const value = environment[variable];
    if (value !== undefined && value !== '') place(values, at, value);
  }
  const result = configSchema.safeParse(values);
  if (!result.success) throw new ConfigError(describe(result.error, environment));
  const warnings = Object.keys(environment)
    .filter(name => name.startsWith('SLUICE_') && !known.has(name))
    .map(name => `The environment variable ${name} is not a setting of this version`);
  return {
    config: result.data,
    warnings: [...warnings, ...openBuilders(result.data)],
    proxyFor: proxiesOf(environment),
  };
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

function readConfigFile(path: string): Record<string, unknown> {
  const value = parseYaml(path, readText(path));
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw new ConfigError(
      `The configuration file ${path} holds no settings: write 'name: value' lines`,
    );
  }
  const values = value as Record<string, unknown>;
  resolvePaths(values, dirname(resolve(path)));
  return values;
}

function readText(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch (cause) {
    throw new ConfigError(`The configuration file ${path} cannot be read`, { cause });
  }
}

function parseYaml(path: string, text: string): unknown {
  try {
    return parse(text, { logLevel: 'error' }) ?? {};
  } catch (error) {
    // Without the parser's words, which would show lines of the file, and with them passwords.
    throw new ConfigError(`The configuration file ${path} is not valid YAML${placeOf(error)}`);
  }
}

/** ` at line 2, column 10 (bad indent)`; nothing where the parser does not tell. */
function placeOf(error: unknown): string {
  const [start] = (error instanceof YAMLParseError && error.linePos) || [];
  if (!start || !(error instanceof YAMLParseError)) return '';
  const what = error.code.toLowerCase().replaceAll('_', ' ');
  return ` at line ${start.line}, column ${start.col} (${what})`;
}

const tlsFiles = ['certificate', 'key', 'clientCa'];

/** Paths in a file mean the same wherever the server is started. */
function resolvePaths(values: Record<string, unknown>, folder: string): void {
  const inFolder = (object: Record<string, unknown>, names: readonly string[]): void => {
    for (const name of names) {
      if (typeof object[name] === 'string') object[name] = resolve(folder, object[name]);
    }
  };
  inFolder(values, ['data', 'dockerConfig']);
  inFolder((values.tls as Record<string, unknown> | null) ?? {}, tlsFiles);
  for (const files of Object.values((values.buildkitTls as object | null) ?? {})) {
    inFolder((files as Record<string, unknown> | null) ?? {}, ['ca', 'certificate', 'key']);
  }
  if (Array.isArray(values.accountFiles)) {
    for (const entry of values.accountFiles) inFolder(entry ?? {}, ['file']);
  }
  for (const registry of Object.values((values.registries as object | null) ?? {})) {
    if (typeof registry?.ca === 'string' && !registry.ca.includes('-----BEGIN')) {
      registry.ca = resolve(folder, registry.ca);
    }
  }
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

function describe(error: z.ZodError, environment: Environment): string {
  const lines = error.issues.map(issue => {
    const path = issue.path.map(String);
    const setting = settings.find(({ path: own }) => own.every((name, at) => name === path[at]));
    const isEnvironment = setting?.variable !== undefined && environment[setting.variable];
    const name = isEnvironment ? setting.variable : `'${path.join('.')}'`;
    return issue.code === 'unrecognized_keys'
      ? `${path.length > 0 ? `${name}: ` : ''}no such setting: ${issue.keys.join(', ')}`
      : `${name}: ${messageOf(issue)}`;
  });
  return `The configuration is wrong. ${lines.join('; ')}`;
}

/** What is wrong with a name in a map stands inside of what is wrong with the map. */
function messageOf(issue: z.core.$ZodIssue): string {
  const message = (issue.code === 'invalid_key' && issue.issues[0]?.message) || issue.message;
  return message.replace(/^Invalid (?:input|option): /, '');
}
