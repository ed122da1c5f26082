import { resolve } from 'node:path';
import { type Command, only } from '../../command/command.ts';
import { dataOptions, dataVariables, jsonOption } from '../../command/common-options.ts';

/** `sluice backup`: copies the data directory. */
export const backupCommand: Command = {
  summary: 'Copy the data directory into another directory. The server may run meanwhile',
  usage: ['DIRECTORY'],
  completes: 'directory',
  options: {
    'with-secrets-key': {
      type: 'boolean',
      description:
        'Also copy secrets.key. A person who has the backup can then read the stored passwords',
    },
    check: {
      type: 'boolean',
      description: 'Also verify the content of an existing backup and replace damaged files',
    },
    ...dataOptions,
    json: jsonOption,
  },
  variables: dataVariables,
  exits: { 1: 'The command failed, or found damaged content' },

  async run(values, args) {
    const directory = resolve(only(args, 'DIRECTORY'));
    return (await import('./run-backup.ts')).runBackup(values, directory);
  },
};
