import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { Fault } from '../../foundation/fault.ts';
import { ConfigError, loadConfig } from '../../server/config/load.ts';
import type { Config } from '../../server/config/settings-schema.ts';
import { type ContentStore, openContentStore } from '../../storage/content/content-store.ts';
import { type Database, openDatabase } from '../../storage/rows/database.ts';
import { requireContent, requireDatabase, requireSecretsKey } from '../../storage/whole-data.ts';
import { CommandError, type Option, text, type Values } from '../command.ts';

/** The option of every command that works on the data directory of the local server. */
export const dataOptions: Readonly<Record<string, Option>> = {
  config: { type: 'string', value: 'FILE', description: 'YAML file; default: SLUICE_CONFIG' },
  data: { type: 'string', value: 'DIRECTORY', description: 'Default: SLUICE_DATA, else ./data' },
};

/** The state of the local server, which may be running meanwhile. */
export interface LocalData {
  readonly config: Config;
  readonly content: ContentStore;
  readonly database: Database;
}

/** The environment with what the options of a command say in its place. */
export function environmentOf(values: Values, names: readonly string[]): NodeJS.ProcessEnv {
  const environment = { ...process.env };
  for (const name of names) {
    const value = text(values, name);
    if (value !== undefined) environment[`SLUICE_${name.toUpperCase()}`] = value;
  }
  return environment;
}

/**
 * Opens the data directory, runs the work, closes it. Throws {@link CommandError} when there is none, unless
 * it is to be made, and when a part of it is missing.
 *
 * @param options.adoptContent uses the content that is there, whatever database it belonged to
 */
export async function withLocalData<T>(
  values: Values,
  work: (data: LocalData) => Promise<T>,
  { create = false, adoptContent = false } = {},
): Promise<T> {
  return withoutData(values, async config => {
    const path = join(config.data, 'sluice.db');
    await requireDatabase(config.data);
    if (!create && !existsSync(path)) {
      throw new CommandError(
        `${config.data} is not the data directory of a server: name it with --data`,
      );
    }
    return withDatabase(path, async database => {
      await requireContent(config.data, database, adoptContent);
      requireSecretsKey(config.data, database);
      const content = await openContentStore(join(config.data, 'content'));
      return work({ config, content, database });
    });
  });
}

/** Runs work on the place of the data directory, whatever is there. Throws {@link CommandError}. */
export async function withoutData<T>(
  values: Values,
  work: (config: Config) => Promise<T>,
): Promise<T> {
  const config = configOf(environmentOf(values, ['config', 'data']));
  try {
    return await work(config);
  } catch (error) {
    if (error instanceof Fault) throw new CommandError(error.message);
    if (!isOfSystem(error)) throw error;
    throw new CommandError(
      `The data directory ${config.data} cannot be used (${error.message}): run this as the user that the server runs as, or name another one with --data`,
    );
  }
}

async function withDatabase<T>(path: string, work: (database: Database) => Promise<T>): Promise<T> {
  const database = openDatabase(path);
  try {
    return await work(database);
  } finally {
    database.close();
  }
}

/** True for what the file system and SQLite throw. */
function isOfSystem(error: unknown): error is Error {
  return (
    error instanceof Error && 'code' in error && /^(?:E(?!RR_)|SQLITE_)/.test(String(error.code))
  );
}

function configOf(environment: NodeJS.ProcessEnv): Config {
  try {
    return loadConfig(environment).config;
  } catch (error) {
    if (error instanceof ConfigError) throw new CommandError(error.message, 2);
    throw error;
  }
}
