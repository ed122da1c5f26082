import { buildWishOf, sourceOptions } from './build-source.ts';
import { jsonOption, post, serverOption } from './client.ts';
import type { Command } from './command.ts';
import { followLog } from './logs.ts';

interface BuildAnswer {
  readonly targetImage: string;
  readonly buildId?: string;
  readonly cached?: boolean;
  readonly succeeded?: boolean;
  readonly warnings?: readonly string[];
}

/** `sluice build`: asks for an image by what it is made of, and prints the name to pull. */
export const buildCommand: Command = {
  summary: 'Build an image from a Dockerfile or from Conda packages and print the name to pull',
  usage: 'build (--file FILE | --conda PACKAGE... | --environment FILE) [options]',
  options: {
    ...sourceOptions,
    await: { type: 'boolean', description: 'Wait for the build, and show its log meanwhile' },
    server: serverOption,
    json: jsonOption,
  },

  async run(values) {
    const answer = (await post(values, '/v1alpha2/container', {
      ...(await buildWishOf(values)),
      timestamp: new Date().toISOString(),
    })) as BuildAnswer;
    for (const warning of answer.warnings ?? []) console.error(`Warning: ${warning}`);
    const isRunning = answer.buildId !== undefined && answer.succeeded === undefined;
    const succeeded =
      values.await && isRunning && answer.buildId
        ? await followLog(values, answer.buildId, process.stderr)
        : answer.succeeded;
    console.log(
      values.json ? JSON.stringify({ ...answer, succeeded }, null, 2) : answer.targetImage,
    );
    return succeeded === false ? 1 : 0;
  },
};
