import { type Command, text } from './command.ts';
import { serve } from './serve.ts';

/** `sluice serve`: runs the server. */
export const serveCommand: Command = {
  summary: 'Run the server; every setting is described in docs/configuration.md',
  usage: 'serve [options]',
  options: {
    config: { type: 'string', value: 'FILE', description: 'YAML file; default: SLUICE_CONFIG' },
    listen: { type: 'string', value: 'ADDRESS:PORT', description: 'Default: SLUICE_LISTEN' },
    data: { type: 'string', value: 'DIRECTORY', description: 'Default: SLUICE_DATA' },
    json: { type: 'boolean', description: 'Log lines are JSON in any case' },
  },

  async run(values) {
    const environment = { ...process.env };
    for (const name of ['config', 'listen', 'data']) {
      const value = text(values, name);
      if (value !== undefined) environment[`SLUICE_${name.toUpperCase()}`] = value;
    }
    return serve(environment);
  },
};
