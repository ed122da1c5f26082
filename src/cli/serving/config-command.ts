import {
  type Command,
  dataOptions,
  dataVariables,
  jsonOption,
  none,
  UsageError,
} from '../command/command.ts';
import { listenOption, serverSettings } from './serve-command.ts';

/** `sluice config`: shows or checks the settings of a server. */
export const configCommand: Command = {
  summary: 'Show the settings of a server and where they come from, or check a configuration file',
  usage: ['', '--check FILE'],
  options: {
    check: {
      type: 'string',
      value: 'FILE',
      completes: 'file',
      description:
        'Check a configuration file and the files that it names, and report all faults. The environment is ignored',
    },
    ...dataOptions,
    listen: listenOption,
    json: jsonOption,
  },
  variables: {
    ...dataVariables,
    'SLUICE_...': 'All other settings; see docs/configuration.md',
  },
  exits: { 2: 'The command line or the configuration is wrong' },

  async run(values, args) {
    none(args);
    const { printSettings, printCheck } = await import('./print-config.ts');
    if (typeof values.check !== 'string') return printSettings(values);
    const other = serverSettings.find(name => values[name] !== undefined);
    if (other !== undefined) throw new UsageError(`--check and --${other} exclude each other`);
    return printCheck(values, values.check);
  },
};
