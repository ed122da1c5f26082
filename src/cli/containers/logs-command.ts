import { buffer } from 'node:stream/consumers';
import { type Command, only, type Values } from '../command/command.ts';
import { jsonOption, serverOption, serverVariables } from '../command/common-options.ts';
import { followExits } from '../command/exit-codes.ts';
import { print } from '../command/output.ts';
import { get, stream } from '../server/server-client.ts';
import { exitCodeOf, followBuild, plainOption } from './follow.ts';

/** `sluice logs`: prints the log of a build. */
export const logsCommand: Command = {
  summary: 'Print the log of a build',
  usage: ['BUILD-ID'],
  options: {
    follow: {
      type: 'boolean',
      short: 'f',
      description: 'Follow the log until the build ends. Exit code 1 if the build failed',
    },
    plain: plainOption,
    server: serverOption,
    json: { ...jsonOption, description: 'Print the state of the build and its log as JSON' },
  },
  variables: serverVariables,
  exits: followExits,

  async run(values, args) {
    const id = only(args, 'BUILD-ID');
    if (values.json) return printJson(values, id);
    if (values.follow) return exitCodeOf(await followBuild(values, id, process.stdout));
    for await (const piece of await stream(values, `${pathOf(id)}/logs`)) {
      process.stdout.write(piece);
    }
    return 0;
  },
};

/** Prints one JSON document; with `--follow` after the build. */
async function printJson(values: Values, id: string): Promise<number> {
  const query = values.follow ? '?follow=true' : '';
  const log = await buffer(await stream(values, `${pathOf(id)}/logs${query}`));
  const status = (await get(values, `${pathOf(id)}/status`)) as { succeeded?: boolean };
  print(values, { ...status, log: log.toString() }, []);
  return values.follow && !status.succeeded ? 1 : 0;
}

function pathOf(id: string): string {
  return `/v1alpha1/builds/${encodeURIComponent(id)}`;
}
