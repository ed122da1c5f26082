import type { z } from 'zod';
import { configSchema } from './settings-schema.ts';

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
const fileOnly = ['registries', 'channels', 'buildkitTls', 'buildkitShares', 'accountFiles'];

/** All settings in the order of the schema, nested ones by their full path. */
export const settings: readonly Setting[] = settingsIn(configSchema, []);

/** The settings of one entry below `registries`. */
export const registrySettings = settingsOfEntry(configSchema.shape.registries, 'registries');

/** The settings of one entry below `channels`. */
export const channelSettings = settingsOfEntry(configSchema.shape.channels, 'channels');

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

function settingsOfEntry(map: z.ZodDefault<z.ZodRecord>, name: string): readonly Setting[] {
  const entry = map.unwrap().valueType as z.ZodObject;
  return settingsIn(entry, [name, '<name>']).map(setting => ({ ...setting, variable: undefined }));
}

function settingsIn(object: z.ZodObject, above: readonly string[]): Setting[] {
  return Object.entries(object.shape).flatMap(([name, schema]) => {
    const path = [...above, name];
    const inner = unwrapped(schema as z.ZodType);
    if (inner.def.type === 'object') return settingsIn(inner as z.ZodObject, path);
    return [
      {
        path,
        variable: fileOnly.includes(name) ? undefined : variable(path),
        description: (schema as z.ZodType).description ?? '',
        default: defaultOf(schema as z.ZodType),
        isSecret: (schema as z.ZodType).meta()?.secret === true,
      },
    ];
  });
}

/** `limits.pulls.anonymous` is `SLUICE_LIMITS_PULLS_ANONYMOUS`. */
function variable(path: readonly string[]): string {
  const words = path.map(name => name.replace(/[A-Z]/g, letter => `_${letter}`).toUpperCase());
  return `SLUICE_${words.join('_')}`;
}

function unwrapped(schema: z.ZodType): z.ZodType {
  const def = schema.def as { type: string; innerType?: z.ZodType };
  return def.innerType && ['default', 'prefault', 'optional'].includes(def.type)
    ? unwrapped(def.innerType)
    : schema;
}

function defaultOf(schema: z.ZodType): unknown {
  const def = schema.def as { type: string; defaultValue?: unknown };
  return def.type === 'default' || def.type === 'prefault' ? def.defaultValue : undefined;
}
