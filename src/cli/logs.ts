import { get, jsonOption, serverOption, stream } from './client.ts';
import { type Command, CommandError, type Values } from './command.ts';

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
    server: serverOption,
    json: jsonOption,
  },

  async run(values, [id]) {
    if (id === undefined) throw new CommandError('Name the build: sluice logs <buildId>', 2);
    if (values.follow) return (await followLog(values, id, process.stdout)) ? 0 : 1;
    await copy(values, `/v1alpha1/builds/${id}/logs`, process.stdout);
    return 0;
  },
};

/** Copies the log of a build until it is over; returns whether it succeeded. */
export async function followLog(
  values: Values,
  id: string,
  sink: NodeJS.WritableStream,
): Promise<boolean> {
  await copy(values, `/v1alpha1/builds/${id}/logs?follow=true`, sink);
  const { succeeded } = (await get(values, `/v1alpha1/builds/${id}/status`)) as {
    succeeded?: boolean;
  };
  return succeeded === true;
}

async function copy(values: Values, path: string, sink: NodeJS.WritableStream): Promise<void> {
  for await (const piece of await stream(values, path)) sink.write(piece);
}
