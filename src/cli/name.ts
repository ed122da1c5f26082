import { planBuild } from '../build/plan.ts';
import { Fault } from '../fault.ts';
import { buildWishOf, sourceOptions } from './build-source.ts';
import { defaultServer, jsonOption } from './client.ts';
import { type Command, CommandError } from './command.ts';

/** `sluice name`: tells what a build would be called, without a server. */
export const nameCommand: Command = {
  summary: 'Print the key and the name that a build would have, without a server',
  usage: 'name (--file FILE | --conda PACKAGE... | --environment FILE) [options]',
  options: { ...sourceOptions, json: jsonOption },

  async run(values) {
    const { SLUICE_BUILD_REPOSITORY, SLUICE_URL = defaultServer } = process.env;
    const repository = SLUICE_BUILD_REPOSITORY || `${new URL(SLUICE_URL).host}/builds`;
    const wish = await buildWishOf(values);
    try {
      const { key, target } = planBuild(wish, { repository, cache: undefined });
      console.log(values.json ? JSON.stringify({ key, name: target }) : target);
      return 0;
    } catch (error) {
      if (error instanceof Fault) throw new CommandError(error.message, 2);
      throw error;
    }
  },
};
