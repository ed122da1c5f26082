import { existsSync } from 'node:fs';
import { userInfo } from 'node:os';
import { join } from 'node:path';
import { Fault } from '../../foundation/fault.ts';
import {
  type Config,
  ConfigError,
  keyDirectory,
  type LoadedConfig,
  loadConfig,
} from '../../server/config/index.ts';
import type { ContentStore } from '../../storage/content/index.ts';
import {
  isDirectory,
  isSqlite,
  openSiteContent,
  openSiteRows,
  type RowsPlace,
} from '../../storage/index.ts';
import type { ServerUse } from '../../storage/rows/file/index.ts';
import type { Rows } from '../../storage/rows/index.ts';
import { requireDatabase, requireSecretsKey } from '../../storage/whole-data.ts';
import { CommandError, environmentWith, type Values } from '../command/command.ts';

/** The state of the local server, which may be running. */
interface LocalData {
  readonly config: Config;
  readonly content: ContentStore;
  readonly rows: Rows;
}

/**
 * Opens the data directory, runs the work, and closes it. Throws {@link CommandError} when there is no data
 * directory, or a part of it is missing.
 *
 * @param options.create makes the data directory, if the user has named it
 * @param options.adoptContent uses the content in the directory, even when it belonged to another database
 * @param options.isAlone refuses while a server uses the PostgreSQL database, and keeps servers from starting. SQLite: see
 *   `lockData`
 */
export async function withLocalData<T>(
  values: Values,
  work: (data: LocalData) => Promise<T>,
  { create = false, adoptContent = false, isAlone = false } = {},
): Promise<T> {
  return withoutData(values, async (config, { originOf, proxyFor }) => {
    if (isSqlite(config)) await requireDatabase(config.data);
    // A new ./data in the current directory would not be the one that the server uses.
    const mayCreate = create && originOf(['data']).kind !== 'default';
    if (!mayCreate) requireData(config, ', or the server with --server URL');
    const asServer = isAlone && !isSqlite(config);
    return withRows(config, asServer ? {} : undefined, async rows => {
      await requireSecretsKey(keyDirectory(config), rows);
      const content = await openSiteContent({ ...config, proxyFor }, rows, { adopt: adoptContent });
      try {
        return await work({ config, content, rows });
      } finally {
        await content.close();
      }
    });
  });
}

/**
 * As {@link withLocalData}, and without the content and a data directory on a site whose state is elsewhere: beside a
 * replica that has not led yet, for example.
 */
export function withLocalRows<T>(
  values: Values,
  work: (data: Omit<LocalData, 'content'>) => Promise<T>,
  options: { readonly create: boolean },
): Promise<T> {
  return withoutData(values, config => {
    if (holdsState(config)) return withLocalData(values, work, options);
    return withRows(config, undefined, async rows => {
      await requireSecretsKey(keyDirectory(config), rows);
      return work({ config, rows });
    });
  });
}

/** True when a part of the state is in the data directory: the rows, the content or the keys. */
function holdsState(config: Config): boolean {
  return isSqlite(config) || isDirectory(config) || keyDirectory(config) === config.data;
}

/** Throws {@link CommandError} when no server has used the data directory. */
export function requireData(config: RowsPlace, orElse = ''): void {
  if (existsSync(isSqlite(config) ? join(config.data, 'sluice.db') : config.data)) return;
  throw new CommandError(
    `${config.data} is not the data directory of a server. Name the data directory with --data DIRECTORY${orElse}`,
  );
}

/** Runs work that needs no existing data directory. Throws {@link CommandError}. */
export async function withoutData<T>(
  values: Values,
  work: (config: Config, loaded: LoadedConfig) => Promise<T>,
): Promise<T> {
  const loaded = loadOrExplain(environmentWith(values, ['config', 'data']));
  try {
    return await work(loaded.config, loaded);
  } catch (error) {
    if (error instanceof Fault) throw new CommandError(error.message);
    if (!isOfSystem(error)) throw error;
    throw new CommandError(
      `Cannot use the data directory ${loaded.config.data} (${error.message}). Run the command as the user of the server, or name another directory with --data`,
    );
  }
}

async function withRows<T>(
  place: RowsPlace,
  server: ServerUse | undefined,
  work: (rows: Rows) => Promise<T>,
): Promise<T> {
  const rows = await openSiteRows(place, server);
  try {
    return await work(rows);
  } finally {
    await rows.end();
  }
}

/** True for errors of the file system and of SQLite. */
function isOfSystem(error: unknown): error is Error {
  return (
    error instanceof Error && 'code' in error && /^(?:E(?!RR_)|SQLITE_)/.test(String(error.code))
  );
}

function loadOrExplain(environment: NodeJS.ProcessEnv): LoadedConfig {
  try {
    return loadConfig(environment);
  } catch (error) {
    if (error instanceof ConfigError) throw new CommandError(error.message, 2);
    throw error;
  }
}

/** Returns the name of the command line's user in the audit log. */
export function commandLine(): string {
  try {
    return `command line (${userInfo().username})`;
  } catch {
    // In a container, a user number may have no name.
    return `command line (${process.getuid?.() ?? 'unknown'})`;
  }
}

/** Notes an action of a command in the audit log. Throws the errors of the database. */
export async function noteLocally(
  rows: Pick<Rows, 'auditLog'>,
  action: string,
  target: string,
): Promise<void> {
  const audit = rows.auditLog(error => {
    throw error;
  });
  audit.add({ actor: commandLine(), action, target });
  await audit.flush();
}
