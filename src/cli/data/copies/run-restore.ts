import { existsSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { restore } from '../../../server/upkeep/copies.ts';
import { openContentDirectory } from '../../../storage/content/index.ts';
import { isDirectory, isSqlite } from '../../../storage/index.ts';
import { CommandError, type Values } from '../../command/command.ts';
import { print } from '../../command/output.ts';
import { withoutData } from '../data.ts';

/** Makes a data directory from the backup in the given one. Returns the exit code. Throws `CommandError`. */
export async function runRestore(values: Values, directory: string): Promise<number> {
  const { report, data } = await withoutData(values, async config => {
    if (!isSqlite(config)) {
      throw new CommandError(
        'sluice restore restores into SQLite only. Set SLUICE_DATABASE to sqlite, or restore PostgreSQL with its own tools',
      );
    }
    if (!isDirectory(config)) {
      throw new CommandError(
        'sluice restore restores content into a directory only. Set SLUICE_CONTENT to directory, or restore the bucket with the tools of the store',
      );
    }
    const data = resolve(config.data);
    const openContent = (path: string, isReadOnly: boolean) =>
      openContentDirectory(join(path, 'content'), { isReadOnly });
    return { data, report: await restore(directory, data, openContent) };
  });
  const { copied, copiedBytes, damaged, missing } = report;
  print(values, report, [
    ...damaged.map(digest => `damaged, not restored: ${digest}`),
    ...missing.map(({ repository, digest }) => `missing: ${repository} ${digest}`),
    `Restored ${copied} contents to ${data}, ${copiedBytes} bytes`,
    ...(existsSync(join(data, 'secrets.key'))
      ? []
      : [
          `Copy secrets.key into ${data} before you start the server: the backup does not contain it.`,
        ]),
  ]);
  return damaged.length + missing.length === 0 ? 0 : 1;
}
