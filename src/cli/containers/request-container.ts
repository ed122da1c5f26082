import { terminalLines } from '../../foundation/text.ts';
import { usersFolder } from '../../oci/naming.ts';
import type { Submission } from '../../request/index.ts';
import { jsonOption, type Option, type Values } from '../command/command.ts';
import { rememberBuild } from '../finding/remembered-builds.ts';
import { withWaitingLine } from '../progress/waiting-line.ts';
import { post, RefusedError, serverAddress } from '../server-client.ts';
import { exitCodeOf, followBuild, plainOption } from './logs-command.ts';

/**
 * Sends a container request. Its failures and warnings name the options of the command line in place of the fields. Throws
 * like {@link post}.
 *
 * @param ownOptions fields that only this command sets by options
 */
export async function requestContainer(
  values: Values,
  body: Readonly<Record<string, unknown>>,
  ownOptions: Readonly<Record<string, string>> = {},
): Promise<ImageResponse> {
  const inWords = (message: string) => inOptionWords(message, ownOptions);
  try {
    const what = body.packages ? 'Solving the packages' : 'Waiting for the server';
    const send = () => post(values, '/v1alpha2/container', body);
    const sent = values.plain === true ? send() : withWaitingLine(process.stderr, what, send);
    const response = (await sent) as ImageResponse;
    const { warnings } = response;
    return warnings ? { ...response, warnings: warnings.map(inWords) } : response;
  } catch (error) {
    if (!(error instanceof RefusedError)) throw error;
    throw new RefusedError(inWords(error.message), error.status);
  }
}

// How messages write a field with a value, and the fields that an option alone stands for.
const optionOfField: Readonly<Partial<Record<keyof Submission, string>>> & Record<string, string> =
  {
    'format: sif': '--format sif',
    'freeze: true': '--freeze',
    format: '--format',
    freeze: '--freeze',
    buildRepository: '--push-to',
    cacheRepository: '--cache-repository',
    containerIncludes: '--include',
    containerPlatform: '--platform',
    nameStrategy: '--name-strategy',
    buildTarget: '--target',
    noCache: '--no-cache',
    noTest: '--no-test',
    buildArgs: '--build-arg',
    labels: '--label',
    annotations: '--annotation',
    created: '--created',
    secrets: '--secret',
    ssh: '--ssh',
    namedContexts: '--build-context',
    containerFile: '--file',
    'packages.entries': '--conda, --pip or --cran',
    'packages.environment': '--environment or --requirements',
    'packages.pipOpts.extras': '--extra',
    'packages.pipOpts.groups': '--group',
    'packages.channels': '--channel',
    'packages.condaOpts': '--mamba-image and --base-image',
    'packages.condaOpts.mambaImage': '--mamba-image',
    'packages.condaOpts.baseImage': '--base-image',
    'packages.condaOpts.basePackages': '--base-packages',
    'packages.condaOpts.commands': '--command',
    'packages.cranOpts.rImage': '--base-image',
    'packages.cranOpts.basePackages': '--base-packages',
    'packages.cranOpts.commands': '--command',
  };

/** Returns a message of the server with options in place of the fields that they set: `--env number 2` for `env[1]`. */
export function inOptionWords(
  message: string,
  ownOptions: Readonly<Record<string, string>> = {},
): string {
  const options: Readonly<Record<string, string>> = { ...optionOfField, ...ownOptions };
  const named = (all: string, field: string, at?: string) => {
    const option = Object.hasOwn(options, field) ? options[field] : undefined;
    if (option === undefined) return all;
    return at === undefined ? option : `${option} number ${Number(at) + 1}`;
  };
  return message
    .replaceAll(/'([\w.]+(?:: \w+)?)(?:\[(\d+)\])?'/g, named)
    .replaceAll(/\b(containerConfig\.\w+)\[(\d+)\]/g, named);
}

/** The parts of a server's response to a container request that commands use. */
export interface ImageResponse {
  readonly targetImage: string;
  readonly buildId?: string;
  readonly freeze?: boolean;
  /** Absent while the build runs, and after it failed. */
  readonly succeeded?: boolean;
  /** Why the build failed a moment ago. */
  readonly reason?: string;
  /** In the response to a dry run. */
  readonly registries?: readonly RegistryForecast[];
  readonly warnings?: readonly string[];
}

/** Findings of a dry run about a repository. */
interface RegistryForecast {
  readonly repository: string;
  readonly canPull: boolean;
  readonly canPush?: boolean;
  readonly problems: readonly string[];
}

/** The options of commands that print the name of an image. */
export const imageOptions: Readonly<Record<string, Option>> = {
  await: {
    type: 'boolean',
    description: 'Follow the build, and print the name when the build has succeeded',
  },
  plain: plainOption,
  'dry-run': {
    type: 'boolean',
    description:
      'Build and store nothing. Print as JSON what would be done and with which credentials. Exit code 1 if an image cannot be pulled or pushed, or if the build cannot start',
  },
  json: jsonOption,
};

/** Prints the name, or the response as JSON; with `--await` after the build. Returns the exit code. */
export async function printImage(values: Values, response: ImageResponse): Promise<number> {
  const { buildId, freeze, succeeded, reason, warnings = [] } = response;
  if (buildId !== undefined && !values['dry-run']) await rememberBuild(values, buildId);
  for (const warning of warnings) console.error(`Warning: ${terminalLines(warning)}`);
  if (values.await && buildId !== undefined && !succeeded && !values['dry-run']) {
    // A build that failed earlier is followed too: its log shows the reason.
    const end = await followBuild(values, buildId, process.stderr, performance.timeOrigin);
    // Scripts rely on the printed name to exist.
    if (end?.succeeded || values.json)
      printValue(values, { ...response, ...(end && { succeeded: end.succeeded }) });
    if (end?.succeeded) showPull(values, response);
    return exitCodeOf(end);
  }
  printValue(values, response);
  if (values['dry-run']) return dryRunCode(response);
  if (reason !== undefined) {
    console.error(`The build failed. To see why: sluice logs ${buildId}`);
    return 1;
  }
  if (buildId !== undefined && succeeded === undefined) {
    // Another registry does not wait for the image that it gets.
    const state = freeze && !isHosted(values, response) ? '' : ' A pull waits for it.';
    console.error(
      `The image is being built.${state} To follow the build: sluice logs -f ${buildId}`,
    );
  }
  showPull(values, response);
  return 0;
}

/** Shows how to pull a Singularity image that only the user can pull: Apptainer does not use the login of this command. */
function showPull(values: Values, response: ImageResponse): void {
  const { targetImage } = response;
  if (!targetImage.startsWith('oras://') || !isHosted(values, response)) return;
  const [folder] = targetImage.slice('oras://'.length).split('/').slice(1);
  if (folder !== usersFolder) return;
  const insecure = serverAddress(values).startsWith('http:') ? '--no-https ' : '';
  console.error(
    `Only you can pull it: APPTAINER_DOCKER_USERNAME=token APPTAINER_DOCKER_PASSWORD="$SLUICE_TOKEN" apptainer pull ${insecure}image.sif ${terminalLines(targetImage)}`,
  );
}

/** Returns true for an image in a repository of the server itself. */
function isHosted(values: Values, { targetImage }: ImageResponse): boolean {
  const server = serverAddress(values);
  const name = targetImage.replace('oras://', '');
  return URL.canParse(server) && name.startsWith(`${new URL(server).host}/`);
}

/** Reports images that cannot be pulled, pushed or built. */
function dryRunCode({ succeeded, reason, registries = [] }: ImageResponse): number {
  if (succeeded !== false) return 0;
  if (reason !== undefined) console.error(terminalLines(`The build cannot start: ${reason}`));
  for (const { repository, canPull, canPush, problems } of registries) {
    if (canPush ?? canPull) continue;
    const action = canPush === undefined ? 'pull from' : 'push to';
    console.error(terminalLines(`Cannot ${action} ${repository}: ${problems.join('; ')}`));
  }
  return 1;
}

function printValue(values: Values, response: ImageResponse): void {
  const isWhole = values.json || values['dry-run'];
  console.log(isWhole ? JSON.stringify(response, null, 2) : terminalLines(response.targetImage));
}
