import {
  ConfigError,
  type LoadedConfig,
  loadConfig,
  type Origin,
} from '../../server/config/index.ts';
import { effectiveSettings } from '../../server/config/read/index.ts';
import { checkConfigFile } from '../../server/life/check-config.ts';
import {
  CommandError,
  environmentWith,
  print,
  table,
  text,
  type Values,
} from '../command/command.ts';
import { serverSettings } from './serve-command.ts';

/** Prints the effective settings with their origins. Returns the exit code. Throws {@link CommandError}. */
export function printSettings(values: Values): number {
  const loaded = load(environmentWith(values, serverSettings));
  for (const warning of loaded.warnings) console.error(`Warning: ${warning}`);
  const options = new Map(
    serverSettings
      .filter(name => text(values, name) !== undefined)
      .map(name => [`SLUICE_${name.toUpperCase()}`, `--${name}`]),
  );
  const settings = effectiveSettings(loaded).map(({ name, value, origin }) => ({
    setting: name,
    value: value ?? null,
    origin: originText(origin, options),
  }));
  const rows = settings.map(({ setting, value, origin }) => [setting, valueText(value), origin]);
  print(values, { settings }, table(['setting', 'value', 'origin'], rows));
  return 0;
}

/** Prints the faults of a configuration file. Returns the exit code. */
export function printCheck(values: Values, file: string): number {
  const faults = checkConfigFile(file);
  const lines = faults.map(({ setting, line, message }) =>
    [`${file}${line === undefined ? '' : `:${line}`}`, setting, message]
      .filter(part => part !== undefined)
      .join(': '),
  );
  const isValid = faults.length === 0;
  const result = { file, valid: isValid, faults };
  print(values, result, isValid ? `${file} is a valid configuration file` : lines);
  return isValid ? 0 : 2;
}

function load(environment: NodeJS.ProcessEnv): LoadedConfig {
  try {
    return loadConfig(environment);
  } catch (error) {
    if (error instanceof ConfigError) throw new CommandError(error.message, 2);
    throw error;
  }
}

function originText(origin: Origin, options: ReadonlyMap<string, string>): string {
  switch (origin.kind) {
    case 'default':
      return 'default';
    case 'environment':
      return options.get(origin.variable) ?? origin.variable;
    case 'file':
      return `${origin.file}${origin.line === undefined ? '' : `:${origin.line}`}`;
  }
}

function valueText(value: unknown): string {
  if (value === null || value === '') return '-';
  if (Array.isArray(value)) return value.join(',') || '-';
  if (typeof value !== 'object') return String(value);
  const json = JSON.stringify(value);
  return json === '{}' ? '-' : json;
}
