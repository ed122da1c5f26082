import { type Command, jsonOption, serverOption } from '../command/command.ts';
import { sourceOptions, sourceUsage } from './source/source-options.ts';

/** `sluice name`: prints the name that a build would have. */
export const nameCommand: Command = {
  summary: 'Print the name that a build would have, without contacting Sluice',
  usage: sourceUsage,
  completes: 'directory',
  options: {
    ...sourceOptions,
    server: {
      ...serverOption,
      description:
        'Server that would build the image; the name begins with its host. Default: SLUICE_SERVER, then http://127.0.0.1:9090',
    },
    json: { ...jsonOption, description: 'Print the build key and the name as JSON' },
  },
  variables: {
    SLUICE_SERVER: 'Address of the server; --server wins',
    SLUICE_BUILD_REPOSITORY: "The server's setting buildRepository",
    SLUICE_FREEZE_REPOSITORY: "The server's setting freezeRepository",
    SLUICE_FREEZE_SIF_REPOSITORY: "The server's setting freezeSifRepository",
  },

  async run(values, args) {
    await (await import('./print-name.ts')).printName(values, args);
    return 0;
  },
};
