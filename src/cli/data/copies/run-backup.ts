import { join, resolve } from 'node:path';
import { backup } from '../../../server/upkeep/copies.ts';
import { openContentDirectory } from '../../../storage/content/index.ts';
import { isDirectory, isSqlite } from '../../../storage/index.ts';
import { CommandError, type Values } from '../../command/command.ts';
import { print } from '../../command/output.ts';
import { withLocalData } from '../data.ts';

/** Copies the data directory into the given one. Returns the exit code. Throws {@link CommandError}. */
export async function runBackup(values: Values, directory: string): Promise<number> {
  const withSecretsKey = values['with-secrets-key'] === true;
  const report = await withLocalData(values, async ({ config, rows }) => {
    if (!isSqlite(config)) {
      throw new CommandError(
        'The rows are in PostgreSQL, and sluice backup does not copy them. Stop the server, copy the data directory, and copy the database with pg_dump',
      );
    }
    if (!isDirectory(config)) {
      throw new CommandError(
        'The content is in an object store, and sluice backup does not copy it. Stop the server, copy the data directory, and copy the bucket with the tools of the store',
      );
    }
    const own = resolve(config.data);
    if (directory === own || directory.startsWith(`${own}/`)) {
      throw new CommandError(`${directory} is inside the data directory. Name another directory`);
    }
    const source = {
      directory: own,
      content: await openContentDirectory(join(own, 'content'), { isReadOnly: true }),
      rows,
    };
    const target = { directory, content: await openContentDirectory(join(directory, 'content')) };
    return backup(source, target, { withSecretsKey, checksTarget: values.check === true });
  });
  const { copied, copiedBytes, kept, damaged } = report;
  print(values, report, [
    ...damaged.map(digest => `damaged, not copied: ${digest}`),
    `Copied ${copied} contents, ${copiedBytes} bytes; the backup already had ${kept}`,
    ...(withSecretsKey
      ? []
      : [
          'Keep a copy of secrets.key in another place: without it, the stored passwords are lost.',
        ]),
  ]);
  return damaged.length === 0 ? 0 : 1;
}
