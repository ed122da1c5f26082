import { type Command, CommandError, type Values } from '../command.ts';
import { post, RefusedError, serverOption } from '../server/server-client.ts';
import { claimOf, claimOptions } from './caller-options.ts';
import { answerOptions, type ImageAnswer, tellImage } from './image-answer.ts';
import {
  type BuildRequest,
  buildRequestOf,
  sourceOptions,
  sourceUsage,
} from './source/source-options.ts';

/** `sluice build`: asks for an image by what it is made of, and prints the name to pull. */
export const buildCommand: Command = {
  summary: 'Build an image from a Dockerfile or from Conda packages and print the name to pull',
  usage: `build ${sourceUsage}`,
  options: { ...sourceOptions, ...claimOptions, server: serverOption, ...answerOptions },

  async run(values, positionals) {
    return tellImage(values, await ask(values, await buildRequestOf(values, positionals)));
  },
};

async function ask(
  values: Values,
  { submission, contextAdvice }: BuildRequest,
): Promise<ImageAnswer> {
  try {
    return (await post(values, '/v1alpha2/container', {
      ...submission,
      dryRun: values['dry-run'],
      ...claimOf(values),
      timestamp: new Date().toISOString(),
    })) as ImageAnswer;
  } catch (error) {
    const isTooLarge = error instanceof RefusedError && error.status === 413;
    if (!isTooLarge || contextAdvice === undefined) throw error;
    throw new CommandError(`${error.message}\n${contextAdvice}`);
  }
}
