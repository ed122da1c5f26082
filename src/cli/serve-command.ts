import { serve } from '../server/life/serve.ts';
import { none } from './action.ts';
import { bringBuilder } from './bring-builder.ts';
import type { Command } from './command.ts';
import { dataOptions, environmentOf } from './data/data.ts';

/** `sluice serve`: runs the server. */
export const serveCommand: Command = {
  summary: 'Run the server; every setting is described in docs/configuration.md',
  usage: 'serve [options]',
  options: {
    ...dataOptions,
    listen: { type: 'string', value: 'ADDRESS:PORT', description: 'Default: SLUICE_LISTEN' },
    'bring-builder': {
      type: 'boolean',
      description:
        'Install BuildKit into the project when there is no builder, as `npm start` does',
    },
    json: { type: 'boolean', description: 'Log lines are JSON in any case' },
  },

  async run(values, args) {
    none(args, 'serve [options]');
    const bring = values['bring-builder'] === true ? bringBuilder : undefined;
    return serve(environmentOf(values, ['config', 'listen', 'data']), bring);
  },
};
