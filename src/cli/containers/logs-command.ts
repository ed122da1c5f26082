import { only } from '../action.ts';
import type { Command, Values } from '../command.ts';
import { serverOption, stream } from '../server/server-client.ts';
import { exitCodeOf, followBuild, plainOption } from './follow.ts';

/** `sluice logs`: prints the log of a build. */
export const logsCommand: Command = {
  summary: 'Print the log of a build',
  usage: 'logs BUILD-ID [options]',
  options: {
    follow: {
      type: 'boolean',
      short: 'f',
      description: 'Go on until the build is over; the exit code is 1 when it failed',
    },
    plain: plainOption,
    server: serverOption,
  },

  async run(values, args) {
    const id = only(args, 'logs BUILD-ID [options]');
    if (values.follow) return exitCodeOf(await followBuild(values, id, process.stdout));
    await copy(values, `/v1alpha1/builds/${encodeURIComponent(id)}/logs`, process.stdout);
    return 0;
  },
};

async function copy(values: Values, path: string, sink: NodeJS.WritableStream): Promise<void> {
  for await (const piece of await stream(values, path)) sink.write(piece);
}
