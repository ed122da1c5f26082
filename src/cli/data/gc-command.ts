import { type Command, none } from '../command/command.ts';
import { dataOptions, dataVariables, jsonOption } from '../command/common-options.ts';

/** `sluice gc`: removes unreferenced content. */
export const gcCommand: Command = {
  summary: 'Remove content that no repository, container token or cache refers to',
  usage: [''],
  options: {
    'dry-run': { type: 'boolean', description: 'Report what would be removed; remove nothing' },
    compact: {
      type: 'boolean',
      description: 'Also rewrite the database without its free space. The server must be stopped',
    },
    'trust-clock': {
      type: 'boolean',
      description: 'Remove content even after the clock has jumped ahead',
    },
    ...dataOptions,
    json: jsonOption,
  },
  variables: dataVariables,

  async run(values, args) {
    none(args);
    return (await import('./run-gc.ts')).runGc(values);
  },
};
