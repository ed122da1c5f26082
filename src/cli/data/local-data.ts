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

/** The rows of the local server, which may be running. */
interface LocalRows {
  readonly config: Config;
  readonly rows: Rows;
}

interface LocalData extends LocalRows {
  readonly content: ContentStore;
}

interface RowsOptions {
  /** Makes the data directory, if the user has named it. */
  readonly create?: boolean;
  /** Refuses while a server uses the PostgreSQL database, and keeps servers from starting. SQLite: see `lockData`. */
  readonly isAlone?: boolean;
}

interface DataOptions extends RowsOptions {
  /** Uses the content, even when it belonged to another database. */
  readonly adoptContent?: boolean;
}

/**
 * Opens the rows and the content, runs the work, and closes them. Throws {@link CommandError} when there is no data
 * directory, or a part of it is missing.
 */
export function withLocalData<T>(
  values: Values,
  work: (data: LocalData) => Promise<T>,
  options: DataOptions = {},
): Promise<T> {
  return withLocalRows(
    values,
    async ({ config, rows }, { proxyFor }) => {
      const adopt = options.adoptContent ?? false;
      const content = await openSiteContent({ ...config, proxyFor }, rows, { adopt });
      try {
        return await work({ config, content, rows });
      } finally {
        await content.close();
      }
    },
    options,
  );
}

/** As {@link withLocalData}, without the content. */
export function withLocalRows<T>(
  values: Values,
  work: (data: LocalRows, loaded: LoadedConfig) => Promise<T>,
  { create = false, isAlone = false }: RowsOptions = {},
): Promise<T> {
  return withoutData(values, async (config, loaded) => {
    if (isSqlite(config)) await requireDatabase(config.data);
    // A new ./data in the current directory would not be the one that the server uses.
    const mayCreate = create && loaded.originOf(['data']).kind !== 'default';
    if (!mayCreate && holdsState(config)) requireData(config, ', or the server with --server URL');
    const asServer = isAlone && !isSqlite(config);
    return withRows(config, asServer ? {} : undefined, async rows => {
      await requireSecretsKey(keyDirectory(config), rows);
      return work({ config, rows }, loaded);
    });
  });
}

/**
 * True when a part of the state is in the data directory. A replica whose site has a database, a bucket and a directory of keys makes
 * the directory when it leads for the first time.
 */
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
