import { join, resolve } from 'node:path';
import { backup } from '../../server/upkeep/backup.ts';
import { openContentStore } from '../../storage/content/content-store.ts';
import { createCachedBlobStore } from '../../storage/rows/images/cached-blob-rows.ts';
import { createHostedStore } from '../../storage/rows/images/hosted-rows.ts';
import { only, print } from '../action.ts';
import { type Command, CommandError } from '../command.ts';
import { jsonOption } from '../server/server-client.ts';
import { dataOptions, withLocalData } from './data.ts';

/** `sluice backup`: copies the data directory, while the server runs. The exit code is 1 when content was damaged. */
export const backupCommand: Command = {
  summary: 'Copy the data directory into another directory, also while the server runs',
  usage: 'backup [options] DIRECTORY',
  options: {
    'with-secrets-key': {
      type: 'boolean',
      description:
        'Also copy secrets.key. Whoever has the backup can then read the stored passwords',
    },
    check: {
      type: 'boolean',
      description: 'Also read what the backup has already, and copy again what is damaged there',
    },
    ...dataOptions,
    json: jsonOption,
  },

  async run(values, args) {
    const directory = resolve(only(args, 'backup [options] DIRECTORY'));
    const withSecretsKey = values['with-secrets-key'] === true;
    const report = await withLocalData(values, async ({ config, database }) => {
      const own = resolve(config.data);
      if (directory === own || directory.startsWith(`${own}/`)) {
        throw new CommandError(`${directory} is inside the data directory: name another directory`);
      }
      const source = {
        directory: own,
        content: await openContentStore(join(own, 'content'), { isReadOnly: true }),
        database,
        hosted: createHostedStore(database),
        cachedBlobs: createCachedBlobStore(database),
      };
      const target = { directory, content: await openContentStore(join(directory, 'content')) };
      return backup(source, target, { withSecretsKey, checksTarget: values.check === true });
    });
    const { copied, copiedBytes, kept, damaged } = report;
    print(values, report, [
      ...damaged.map(digest => `damaged, not copied: ${digest}`),
      `${copied} contents copied, ${copiedBytes} bytes; ${kept} were there already`,
      ...(withSecretsKey
        ? []
        : ['Keep secrets.key in another place: without it the stored passwords are lost.']),
    ]);
    return damaged.length === 0 ? 0 : 1;
  },
};
