import { resolve } from 'node:path';
import { type Command, only } from '../../command/command.ts';
import { dataOptions, dataVariables, jsonOption } from '../../command/common-options.ts';

/** `sluice restore`: makes a data directory from a backup. */
export const restoreCommand: Command = {
  summary: 'Make a new data directory from the backup in a directory',
  usage: ['DIRECTORY'],
  completes: 'directory',
  options: { ...dataOptions, json: jsonOption },
  variables: dataVariables,
  exits: { 1: 'The command failed, or the backup has damaged or missing content' },

  async run(values, args) {
    const directory = resolve(only(args, 'DIRECTORY'));
    return (await import('./run-restore.ts')).runRestore(values, directory);
  },
};
