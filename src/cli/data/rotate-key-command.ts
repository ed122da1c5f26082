import { type Command, none } from '../command/command.ts';
import { dataOptions, dataVariables, jsonOption } from '../command/common-options.ts';

/** `sluice rotate-key`: replaces the key of the secrets in the database. */
export const rotateKeyCommand: Command = {
  summary: 'Encrypt all stored secrets with a new key. The server must be stopped',
  usage: [''],
  options: {
    'remove-previous': {
      type: 'boolean',
      description: 'Remove secrets.key.previous once no container request requires it',
    },
    ...dataOptions,
    json: jsonOption,
  },
  variables: dataVariables,

  async run(values, args) {
    none(args);
    return (await import('./run-rotate-key.ts')).runRotateKey(values);
  },
};
