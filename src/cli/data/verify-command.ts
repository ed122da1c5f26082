import { type Command, none } from '../command/command.ts';
import { dataOptions, dataVariables, jsonOption } from '../command/common-options.ts';

/** `sluice verify`: reads all content and checks its digests. */
export const verifyCommand: Command = {
  summary: 'Read all content and report what is damaged or missing',
  usage: [''],
  options: {
    'remove-damaged': {
      type: 'boolean',
      description: 'Remove damaged content. The next push or pull restores it',
    },
    'adopt-content': {
      type: 'boolean',
      description:
        'Use the content directory with this database, although content is missing or belongs to another database',
    },
    ...dataOptions,
    json: jsonOption,
  },
  variables: dataVariables,
  exits: { 1: 'The command failed, or found damaged or missing content' },

  async run(values, args) {
    none(args);
    return (await import('./run-verify.ts')).runVerify(values);
  },
};
