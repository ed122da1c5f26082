import type { Option, Values } from '../command.ts';
import { jsonOption } from '../server/server-client.ts';
import { exitCodeOf, followBuild, plainOption } from './follow.ts';

/** What a server answers to a container request, as far as commands look at it. */
export interface ImageAnswer {
  readonly targetImage: string;
  readonly buildId?: string;
  readonly freeze?: boolean;
  /** Absent while the image is made, and when it cannot be made. */
  readonly succeeded?: boolean;
  /** Why the build failed, where it failed a moment ago. */
  readonly reason?: string;
  readonly warnings?: readonly string[];
}

/** The options that say what of an answer is shown, and when. */
export const answerOptions: Readonly<Record<string, Option>> = {
  await: {
    type: 'boolean',
    description:
      'Wait until the image is made and show how it goes on. Print its name if that succeeds; the exit code is 1 when it fails',
  },
  plain: plainOption,
  'dry-run': {
    type: 'boolean',
    description:
      'Only tell what would be done, with which credentials, as JSON; the exit code is 1 when something cannot be pulled or pushed',
  },
  json: jsonOption,
};

/** Prints the name, or the whole answer where that is wanted, once it is time to. Returns the exit code. */
export async function tellImage(values: Values, answer: ImageAnswer): Promise<number> {
  const { buildId, freeze, succeeded, reason, warnings = [] } = answer;
  for (const warning of warnings) console.error(`Warning: ${warning}`);
  if (values.await && buildId !== undefined && !succeeded && !values['dry-run']) {
    // The log of one that failed before tells why.
    const end = await followBuild(values, buildId, process.stderr);
    // Scripts take what is printed for an image that exists.
    if (end?.succeeded || values.json) print(values, { ...answer, ...end });
    return exitCodeOf(end);
  }
  print(values, answer);
  if (values['dry-run']) return succeeded === false ? 1 : 0;
  if (reason !== undefined) {
    console.error(`The build failed: 'sluice logs ${buildId}' shows why`);
    return 1;
  }
  if (buildId !== undefined && succeeded === undefined) {
    // A frozen name is that of another registry, where a pull does not wait.
    const state = freeze ? '' : ', and a pull of it waits';
    console.error(
      `The image is being made${state}: 'sluice logs -f ${buildId}' shows how it goes on`,
    );
  }
  return 0;
}

function print(values: Values, answer: ImageAnswer): void {
  const isWhole = values.json || values['dry-run'];
  console.log(isWhole ? JSON.stringify(answer, null, 2) : answer.targetImage);
}
