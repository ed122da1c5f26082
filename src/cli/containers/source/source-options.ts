import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { configFields } from '../../../images/augment/container-config.ts';
import type { Submission } from '../../../request/submission.ts';
import { CommandError, type Option, text, texts, type Values } from '../../command.ts';
import { packContext } from './packed-context.ts';
import { recipeOptions, recipeOptionsOf } from './recipe-options.ts';

/** The options that say what to build. */
export const sourceOptions: Readonly<Record<string, Option>> = {
  file: {
    type: 'string',
    short: 'f',
    value: 'FILE',
    description: 'Dockerfile, - for standard input; default: the one in the context',
  },
  conda: {
    type: 'string',
    multiple: true,
    value: 'PACKAGE',
    description: 'Conda package, such as samtools=1.20; repeatable',
  },
  channel: {
    type: 'string',
    multiple: true,
    value: 'CHANNEL',
    description: 'Conda channel, the first one first; repeatable',
  },
  environment: { type: 'string', value: 'FILE', description: 'Conda environment file' },
  'mamba-image': {
    type: 'string',
    value: 'IMAGE',
    description: 'Image with the package manager, in which Conda packages are installed',
  },
  'base-image': {
    type: 'string',
    value: 'IMAGE',
    description: 'Image that Conda packages are put into',
  },
  'base-packages': {
    type: 'string',
    value: 'PACKAGES',
    description: "Conda packages that every image gets, separated by blanks; '' for none",
  },
  command: {
    type: 'string',
    multiple: true,
    value: 'COMMAND',
    description: 'Command that is run in the image with Conda packages; repeatable',
  },
  'build-context': {
    type: 'string',
    multiple: true,
    value: 'NAME=IMAGE',
    description:
      'Take docker-image://IMAGE in place of an image or stage of the Dockerfile; repeatable',
  },
  'build-arg': {
    type: 'string',
    multiple: true,
    value: 'NAME=VALUE',
    description: 'Build argument of a Dockerfile or Singularity definition file; repeatable',
  },
  ...recipeOptions,
  'no-test': {
    type: 'boolean',
    description: 'Do not run the %test of a Singularity definition file',
  },
  compression: {
    type: 'string',
    value: 'gzip|zstd[:LEVEL]',
    description: 'Compression of a Singularity image; default: gzip:6. zstd:9 takes half the time',
  },
  platform: { type: 'string', value: 'OS/ARCH', description: 'Default: linux/amd64' },
  'push-to': {
    type: 'string',
    value: 'REPOSITORY',
    description: 'Where the image is pushed; default: what the server is configured for',
  },
  'name-strategy': {
    type: 'string',
    value: 'none|tagPrefix|imageSuffix',
    description: 'Where the image is named after its packages; default: tagPrefix',
  },
  config: {
    type: 'string',
    value: 'FILE',
    description: `JSON of containerConfig: ${configFields.join(', ')}, layers`,
  },
  freeze: {
    type: 'boolean',
    description:
      'Put the configuration into the image itself, with --push-to; the name is for good',
  },
  format: {
    type: 'string',
    value: 'docker|sif',
    description: 'sif, with --freeze: a Singularity image',
  },
};

/** How commands that take these options are called. */
export const sourceUsage =
  '([-f FILE] [DIRECTORY|URL] | --conda PACKAGE... | --environment FILE) [options]';

/** What is asked for, and what to do when the server finds the build context too large. */
export interface BuildRequest {
  readonly submission: Submission;
  readonly contextAdvice: string | undefined;
}

/** What the options and the build context ask for. Throws {@link CommandError}. */
export async function buildRequestOf(
  values: Values,
  positionals: readonly string[],
): Promise<BuildRequest> {
  const [context, ...others] = positionals;
  if (others.length > 0) {
    throw new CommandError(`One build context can be given, not ${positionals.join(' and ')}`, 2);
  }
  const dockerfile = dockerfileOf(values, context);
  const packed = context === undefined ? undefined : await packContext(context, dockerfile);
  const namedContexts = namedContextsOf(texts(values, 'build-context'));
  const buildArgs = buildArgsOf(texts(values, 'build-arg'));
  const submission = {
    ...(await sourceOf(values, dockerfile)),
    containerPlatform: text(values, 'platform'),
    buildRepository: text(values, 'push-to'),
    nameStrategy: choiceOf(values, 'name-strategy', nameStrategies),
    containerConfig: await configOf(text(values, 'config')),
    buildContext: packed?.layer,
    ...(Object.keys(namedContexts).length > 0 ? { namedContexts } : {}),
    ...(Object.keys(buildArgs).length > 0 ? { buildArgs } : {}),
    ...compressionOf(text(values, 'compression')),
    ...(await recipeOptionsOf(values)),
    ...(values['no-test'] === true ? { noTest: true } : {}),
    ...(values.freeze === true ? { freeze: true } : {}),
    format: choiceOf(values, 'format', formats),
  };
  return { submission, contextAdvice: packed?.advice };
}

/** The one that is named, else that of the context. */
function dockerfileOf(values: Values, context: string | undefined): string | undefined {
  const file = text(values, 'file');
  const hasPackages = texts(values, 'conda').length > 0 || values.environment !== undefined;
  if (file !== undefined || hasPackages || context === undefined) return file;
  if (/^https?:/i.test(context)) {
    throw new CommandError(`Name the Dockerfile for ${context}: -f FILE`, 2);
  }
  return join(context, 'Dockerfile');
}

async function sourceOf(values: Values, dockerfile: string | undefined) {
  const environment = text(values, 'environment');
  const entries = texts(values, 'conda');
  const channels = texts(values, 'channel');
  const given = [dockerfile, environment, entries[0]].filter(value => value !== undefined);
  if (given.length !== 1) {
    throw new CommandError(
      'Say what to build: a directory with a Dockerfile, or one of --file, --conda and --environment',
      2,
    );
  }
  if (dockerfile !== undefined) {
    const stray = ['channel', ...condaOptions].find(option => values[option] !== undefined);
    if (stray !== undefined) {
      throw new CommandError(
        `--${stray} goes with --conda or --environment, not with a Dockerfile`,
        2,
      );
    }
    return { containerFile: await base64Of(dockerfile) };
  }
  const [mambaImage, baseImage, basePackages] = condaTexts.map(option => text(values, option));
  const commands = texts(values, 'command');
  const condaOpts = {
    ...{ mambaImage, baseImage, basePackages },
    ...(commands.length > 0 ? { commands } : {}),
  };
  return {
    packages: {
      type: 'CONDA',
      ...(environment === undefined ? { entries } : { environment: await base64Of(environment) }),
      ...(channels.length > 0 ? { channels } : {}),
      condaOpts,
    },
  };
}

const condaTexts = ['mamba-image', 'base-image', 'base-packages'] as const;
const condaOptions = [...condaTexts, 'command'] as const;

/** `NAME=docker-image://IMAGE` each, as Docker has it. */
function namedContextsOf(given: readonly string[]): Record<string, string> {
  return Object.fromEntries(
    given.map(context => {
      const [, name, image] = /^([^=]+)=docker-image:\/\/(.+)$/s.exec(context) ?? [];
      if (name !== undefined && image !== undefined) return [name, image];
      throw new CommandError(
        `--build-context ${context}: write NAME=docker-image://IMAGE; only images can be named`,
        2,
      );
    }),
  );
}

/** `NAME=VALUE` each, as Apptainer has it. */
function buildArgsOf(given: readonly string[]): Record<string, string> {
  return Object.fromEntries(
    given.map(argument => {
      const [, name, value] = /^(\w+)=(.*)$/s.exec(argument) ?? [];
      if (name !== undefined && value !== undefined) return [name, value];
      throw new CommandError(`--build-arg ${argument}: write NAME=VALUE`, 2);
    }),
  );
}

function compressionOf(given: string | undefined): Pick<Submission, 'buildCompression'> {
  if (given === undefined) return {};
  const [, mode, level] = /^(gzip|zstd)(?::(\d+))?$/.exec(given) ?? [];
  if (mode === undefined) {
    throw new CommandError(`--compression ${given}: write gzip or zstd, or zstd:LEVEL`, 2);
  }
  return { buildCompression: { mode, ...(level === undefined ? {} : { level: Number(level) }) } };
}

async function configOf(path: string | undefined): Promise<Submission['containerConfig']> {
  if (path === undefined) return undefined;
  const content = await contentOf(path);
  try {
    const config: unknown = JSON.parse(content.toString());
    if (config !== null && typeof config === 'object' && !Array.isArray(config)) return config;
  } catch {
    // Told below.
  }
  throw new CommandError(`${path} is not a JSON object`, 2);
}

const formats = ['docker', 'sif'] as const;
const nameStrategies = ['none', 'tagPrefix', 'imageSuffix'] as const;

function choiceOf<T extends string>(
  values: Values,
  option: string,
  choices: readonly T[],
): T | undefined {
  const given = text(values, option);
  const chosen = choices.find(choice => choice === given);
  if (given === undefined || chosen !== undefined) return chosen;
  throw new CommandError(`--${option} ${given}: write ${choices.join(' or ')}`, 2);
}

async function base64Of(path: string): Promise<string> {
  return (await contentOf(path)).toString('base64');
}

async function contentOf(path: string): Promise<Buffer> {
  try {
    return path === '-' ? await buffer(process.stdin) : await readFile(path);
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    const why = code === 'ENOENT' ? 'there is no such file' : message;
    throw new CommandError(`${path} cannot be read (${why})`, 2);
  }
}
