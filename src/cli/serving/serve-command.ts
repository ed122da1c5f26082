import {
  type Command,
  dataOptions,
  dataVariables,
  environmentWith,
  none,
  type Option,
} from '../command/command.ts';

/** The option for the address that a server listens on. */
export const listenOption: Option = {
  type: 'string',
  value: 'ADDRESS:PORT',
  description: 'Address and port to listen on. Default: SLUICE_LISTEN, then 127.0.0.1:9090',
};

/** The options that replace settings. */
export const serverSettings = ['config', 'data', 'listen'] as const;

/** `sluice serve`: runs the server. */
export const serveCommand: Command = {
  summary: 'Run the server. The log is text on a terminal, and JSON lines elsewhere',
  usage: [''],
  options: {
    ...dataOptions,
    listen: listenOption,
    'bring-builder': {
      type: 'boolean',
      description:
        'Install BuildKit into the project if there is no builder, and uv if it is missing, as npm start does',
    },
    yes: {
      type: 'boolean',
      description:
        'With --bring-builder: also install the packages of this machine that a builder requires (apt-get, as root)',
    },
  },
  variables: {
    ...dataVariables,
    SLUICE_LISTEN: 'Address and port; --listen wins',
    'SLUICE_...': "All settings: 'sluice config' lists them, docs/configuration.md explains them",
  },
  exits: { 1: 'The server cannot start or has failed. The log says why' },

  async run(values, args) {
    none(args);
    const { serve } = await import('../../server/life/serve.ts');
    const bring = values['bring-builder'] === true ? await import('./bring-builder.ts') : undefined;
    return serve(
      environmentWith(values, serverSettings),
      bring && {
        bringBuilder: bring.bringBuilder(values.yes === true),
        bringUv: bring.bringUv,
      },
    );
  },
};
