import { type BuildRequest, buildRequestOf, sourceOptions, sourceUsage } from './build-source.ts';
import { claimOf, claimOptions } from './claim.ts';
import { jsonOption, post, RefusedError, serverOption } from './client.ts';
import { type Command, CommandError, type Values } from './command.ts';
import { exitCodeOf, followBuild, plainOption } from './follow.ts';

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
  usage: `build ${sourceUsage}`,
  options: {
    ...sourceOptions,
    await: {
      type: 'boolean',
      description: 'Wait for the build and show how it goes on; the exit code is 1 when it failed',
    },
    plain: plainOption,
    ...claimOptions,
    server: serverOption,
    json: jsonOption,
  },

  async run(values, positionals) {
    const answer = await ask(values, await buildRequestOf(values, positionals));
    const { buildId, warnings = [] } = answer;
    for (const warning of warnings) console.error(`Warning: ${warning}`);
    // The log of one that failed before tells why.
    if (!values.await || buildId === undefined || answer.succeeded) {
      print(values, answer);
      return answer.succeeded === false ? 1 : 0;
    }
    const end = await followBuild(values, buildId, process.stderr);
    print(values, { ...answer, ...end });
    return exitCodeOf(end);
  },
};

function print(values: Values, answer: BuildAnswer): void {
  console.log(values.json ? JSON.stringify(answer, null, 2) : answer.targetImage);
}

async function ask(
  values: Values,
  { submission, contextAdvice }: BuildRequest,
): Promise<BuildAnswer> {
  try {
    const body = { ...submission, ...claimOf(values), timestamp: new Date().toISOString() };
    return (await post(values, '/v1alpha2/container', body)) as BuildAnswer;
  } catch (error) {
    const isTooLarge = error instanceof RefusedError && error.status === 413;
    if (!isTooLarge || contextAdvice === undefined) throw error;
    throw new CommandError(`${error.message}\n${contextAdvice}`);
  }
}
