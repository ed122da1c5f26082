import { readFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { configFields } from '../../../images/augment/container-config.ts';
import { supportedPlatforms } from '../../../oci/naming.ts';
import type { Submission } from '../../../request/index.ts';
import {
  CommandError,
  type Option,
  text,
  texts,
  UsageError,
  type Values,
} from '../../command/command.ts';
import { type ContextDirectory, contextDirectory, packContext } from './packed-context.ts';
import { withoutOtherWheels } from './python-lock-lines.ts';
import { recipeOptions, recipeOptionsOf } from './recipe-options.ts';

/** The options that specify what to build. */
export const sourceOptions: Readonly<Record<string, Option>> = {
  file: {
    type: 'string',
    short: 'f',
    value: 'FILE',
    completes: 'file',
    description:
      'Dockerfile or Singularity definition file; - is standard input. Default: Dockerfile in the build context',
  },
  conda: {
    type: 'string',
    multiple: true,
    value: 'PACKAGE',
    description: 'Conda package, such as samtools=1.20',
  },
  cran: {
    type: 'string',
    multiple: true,
    value: 'PACKAGE',
    description: 'R package, such as dplyr, dplyr==1.1.4 or bioc::DESeq2',
  },
  channel: {
    type: 'string',
    multiple: true,
    value: 'CHANNEL',
    description:
      'Conda channel, or address of a repository of R packages, in the order of priority',
  },
  environment: {
    type: 'string',
    value: 'FILE',
    completes: 'file',
    description: 'Conda environment file, or a renv.lock of R packages',
  },
  pip: {
    type: 'string',
    multiple: true,
    value: 'REQUIREMENT',
    description:
      'Python package, such as multiqc==1.25 or requests[socks]. --conda can be beside it',
  },
  requirements: {
    type: 'string',
    value: 'FILE',
    completes: 'file',
    description:
      'Python packages: a requirements.txt, pyproject.toml, uv.lock, pylock.toml or poetry.lock',
  },
  extra: {
    type: 'string',
    multiple: true,
    value: 'NAME',
    description: 'Extra of the project in the file of --requirements',
  },
  group: {
    type: 'string',
    multiple: true,
    value: 'NAME',
    description: 'Dependency group of the project in the file of --requirements',
  },
  'mamba-image': {
    type: 'string',
    value: 'IMAGE',
    description: 'Image with the package manager that installs the Conda packages',
  },
  'base-image': {
    type: 'string',
    value: 'IMAGE',
    description: 'Image that the packages are added to; for R packages an image with R',
  },
  'base-packages': {
    type: 'string',
    value: 'PACKAGES',
    description:
      "Conda packages, or Debian packages before R packages, to add to the given ones, separated by spaces; '' adds none",
  },
  command: {
    type: 'string',
    multiple: true,
    value: 'COMMAND',
    description: 'Command to run in the image after the packages are installed',
  },
  'build-context': {
    type: 'string',
    multiple: true,
    value: 'NAME=IMAGE',
    description:
      'Use an image in place of another image or stage of the Dockerfile. IMAGE is docker-image://NAME',
  },
  'build-arg': {
    type: 'string',
    multiple: true,
    value: 'NAME=VALUE',
    description: 'Build argument of a Dockerfile or Singularity definition file',
  },
  ...recipeOptions,
  'no-test': {
    type: 'boolean',
    description: 'Skip the %test section of a Singularity definition file',
  },
  compression: {
    type: 'string',
    value: 'gzip|zstd|estargz[:LEVEL]',
    description:
      'Compression of the layers that a build makes, or of a Singularity image. For the latter, zstd:9 takes half the time of gzip:6. Default: gzip',
  },
  'keep-base-layers': {
    type: 'boolean',
    description:
      'Keep the layers of base images as they are. Without it, --compression estargz compresses them again',
  },
  platform: {
    type: 'string',
    value: 'OS/ARCH',
    completes: supportedPlatforms,
    description: 'Platform to build for. Default: linux/amd64',
  },
  'push-to': {
    type: 'string',
    value: 'REPOSITORY',
    description:
      'Repository to push the image to, registry/path. Default: the build repository of the server; with --freeze your own repository on the server, or the one that it has for all',
  },
  'name-strategy': {
    type: 'string',
    value: 'none|tagPrefix|imageSuffix',
    completes: ['none', 'tagPrefix', 'imageSuffix'],
    description:
      'Where the names of the packages go: nowhere, before the tag, or after the repository. Default: tagPrefix',
  },
  'container-config': {
    type: 'string',
    value: 'FILE',
    completes: 'file',
    description: `JSON file with the containerConfig: ${configFields.join(', ')}, layers`,
  },
  freeze: {
    type: 'boolean',
    description:
      'Store the configuration in the image and push it to a repository. Its name does not expire',
  },
  format: {
    type: 'string',
    value: 'docker|sif',
    completes: ['docker', 'sif'],
    description: 'Format of the image. sif, a Singularity image, implies --freeze. Default: docker',
  },
};

/** Usage of the commands with these options. */
export const sourceUsage: readonly string[] = [
  'DIRECTORY',
  '-f FILE [DIRECTORY|URL]',
  '--conda PACKAGE',
  '--pip REQUIREMENT',
  '--cran PACKAGE',
  '--environment FILE',
  '--requirements FILE',
];

/** A request for a build. */
export interface BuildRequest {
  /** Its `buildContext` is absent when the directory is too large to be packed into a request. */
  readonly submission: Submission;
  /** The directory of the build context, if there is one. */
  readonly directory: ContextDirectory | undefined;
}

/** Returns the request that the options and the build context describe. Throws {@link CommandError}. */
export async function buildRequestOf(
  values: Values,
  positionals: readonly string[],
): Promise<BuildRequest> {
  const [context, ...others] = positionals;
  if (others.length > 0) {
    throw new UsageError(`Expected one build context, got ${positionals.join(' and ')}`);
  }
  const dockerfile = dockerfileOf(values, context);
  const isUrl = context !== undefined && /^https?:\/\//i.test(context);
  const directory =
    context === undefined || isUrl ? undefined : await contextDirectory(context, dockerfile);
  const namedContexts = namedContextsOf(texts(values, 'build-context'));
  const buildArgs = buildArgsOf(texts(values, 'build-arg'));
  const submission = {
    ...(await sourceOf(values, dockerfile)),
    containerPlatform: text(values, 'platform'),
    buildRepository: text(values, 'push-to'),
    nameStrategy: choiceOf(values, 'name-strategy', nameStrategies),
    containerConfig: await configOf(text(values, 'container-config')),
    buildContext: isUrl ? { location: context } : directory && (await packContext(directory)),
    ...(Object.keys(namedContexts).length > 0 ? { namedContexts } : {}),
    ...(Object.keys(buildArgs).length > 0 ? { buildArgs } : {}),
    ...compressionOf(text(values, 'compression'), values['keep-base-layers'] === true),
    ...(await recipeOptionsOf(values)),
    ...(values['no-test'] === true ? { noTest: true } : {}),
    ...freezeOf(values),
    format: choiceOf(values, 'format', formats),
  };
  return { submission, directory };
}

/** Returns the fields of a frozen image. A Singularity image is always one: only a registry has it. */
export function freezeOf(values: Values): Pick<Submission, 'freeze' | 'defaultRepository'> {
  if (values.freeze !== true && values.format !== 'sif') return {};
  return values['push-to'] === undefined
    ? { freeze: true, defaultRepository: true }
    : { freeze: true };
}

/** Returns the given Dockerfile, or the one in the context. */
function dockerfileOf(values: Values, context: string | undefined): string | undefined {
  const file = text(values, 'file');
  const hasPackages =
    ['conda', 'pip', 'cran'].some(option => texts(values, option).length > 0) ||
    values.environment !== undefined ||
    values.requirements !== undefined;
  if (file !== undefined || hasPackages || context === undefined) return file;
  if (/^https?:/i.test(context)) {
    throw new UsageError(`Missing option: -f FILE, the Dockerfile for ${context}`);
  }
  return join(context, 'Dockerfile');
}

async function sourceOf(values: Values, dockerfile: string | undefined) {
  const requirements = text(values, 'requirements');
  const environment = text(values, 'environment') ?? requirements;
  const cran = texts(values, 'cran');
  const conda = [...texts(values, 'conda'), ...texts(values, 'pip').map(spec => `pip:${spec}`)];
  const channels = texts(values, 'channel');
  const given = [dockerfile, values.environment, requirements, conda[0], cran[0]].filter(
    value => value !== undefined,
  );
  if (given.length !== 1) {
    throw new UsageError(
      'Specify what to build: a directory with a Dockerfile, or one of --file, --conda and --pip, --cran, --environment and --requirements',
    );
  }
  if (dockerfile !== undefined) {
    const stray = ['channel', ...condaOptions].find(option => values[option] !== undefined);
    if (stray !== undefined) {
      throw new CommandError(
        `--${stray} requires --conda, --pip, --cran, --environment or --requirements`,
        2,
      );
    }
    return { containerFile: await base64Of(dockerfile) };
  }
  const [mambaImage, baseImage, basePackages] = condaTexts.map(option => text(values, option));
  const commands = texts(values, 'command');
  const options = { basePackages, ...(commands.length > 0 ? { commands } : {}) };
  const [extras, groups] = [texts(values, 'extra'), texts(values, 'group')];
  const hasParts = extras.length > 0 || groups.length > 0;
  if (hasParts && environment === undefined) {
    throw new CommandError('--extra and --group require --requirements', 2);
  }
  const isCran = cran.length > 0 || basename(environment ?? '').endsWith('renv.lock');
  if (isCran && mambaImage !== undefined) {
    throw new CommandError(
      '--mamba-image is for Conda packages: name an image with R by --base-image',
      2,
    );
  }
  return {
    packages: {
      ...(environment === undefined
        ? { entries: isCran ? cran : conda }
        : { environment: await environmentOf(environment) }),
      ...(channels.length > 0 ? { channels } : {}),
      ...(hasParts ? { pipOpts: { extras, groups } } : {}),
      ...(isCran
        ? { type: 'CRAN', cranOpts: { rImage: baseImage, ...options } }
        : { type: 'CONDA', condaOpts: { mambaImage, baseImage, ...options } }),
    },
  };
}

const condaTexts = ['mamba-image', 'base-image', 'base-packages'] as const;
const condaOptions = [...condaTexts, 'command'] as const;

/** Reads `NAME=docker-image://IMAGE`, in Docker's syntax. */
function namedContextsOf(given: readonly string[]): Record<string, string> {
  return Object.fromEntries(
    given.map(context => {
      const [, name, image] = /^([^=]+)=docker-image:\/\/(.+)$/s.exec(context) ?? [];
      if (name !== undefined && image !== undefined) return [name, image];
      throw new CommandError(`--build-context ${context}: expected NAME=docker-image://IMAGE`, 2);
    }),
  );
}

/** Reads `NAME=VALUE`, in Apptainer's syntax. */
function buildArgsOf(given: readonly string[]): Record<string, string> {
  return Object.fromEntries(
    given.map(argument => {
      const [, name, value] = /^(\w+)=(.*)$/s.exec(argument) ?? [];
      if (name !== undefined && value !== undefined) return [name, value];
      throw new CommandError(`--build-arg ${argument}: expected NAME=VALUE`, 2);
    }),
  );
}

function compressionOf(
  given: string | undefined,
  keepsBase: boolean,
): Pick<Submission, 'buildCompression'> {
  if (given === undefined && keepsBase) {
    throw new CommandError('--keep-base-layers requires --compression', 2);
  }
  if (given === undefined) return {};
  const [, mode, level] = /^(gzip|zstd|estargz)(?::(\d+))?$/.exec(given) ?? [];
  if (mode === undefined) {
    throw new CommandError(
      `--compression ${given}: expected gzip, zstd or estargz, with or without :LEVEL`,
      2,
    );
  }
  return {
    buildCompression: {
      mode,
      ...(level === undefined ? {} : { level: Number(level) }),
      ...(keepsBase ? { force: false } : {}),
    },
  };
}

async function configOf(path: string | undefined): Promise<Submission['containerConfig']> {
  if (path === undefined) return undefined;
  const content = await contentOf(path);
  try {
    const config: unknown = JSON.parse(content.toString());
    if (config !== null && typeof config === 'object' && !Array.isArray(config)) return config;
  } catch {
    // Reported below.
  }
  throw new CommandError(
    `${path} is not a JSON object: write the containerConfig, such as {"env": ["NAME=value"]}`,
    2,
  );
}

export const formats = ['docker', 'sif'] as const;
const nameStrategies = ['none', 'tagPrefix', 'imageSuffix'] as const;

/** Returns the value of an option that takes one of the choices. Throws {@link CommandError} for another one. */
export function choiceOf<T extends string>(
  values: Values,
  option: string,
  choices: readonly T[],
): T | undefined {
  const given = text(values, option);
  const chosen = choices.find(choice => choice === given);
  if (given === undefined || chosen !== undefined) return chosen;
  throw new CommandError(`--${option} ${given}: expected ${choices.join(' or ')}`, 2);
}

// The largest file that a server reads from a request.
const mostBytes = 256 * 1024;

async function environmentOf(path: string): Promise<string> {
  const content = await contentOf(path);
  const isLarge = content.length > mostBytes;
  return (isLarge ? Buffer.from(withoutOtherWheels(content.toString())) : content).toString(
    'base64',
  );
}

async function base64Of(path: string): Promise<string> {
  return (await contentOf(path)).toString('base64');
}

/** Returns the content of a file, or of the standard input for `-`. Throws a {@link CommandError}. */
export async function contentOf(path: string): Promise<Buffer> {
  try {
    return path === '-' ? await buffer(process.stdin) : await readFile(path);
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    const why = code === 'ENOENT' ? 'the file does not exist' : message.replace(/, read$/, '');
    const other = basename(path) === 'Dockerfile' ? '. To name another Dockerfile: -f FILE' : '';
    throw new CommandError(`Cannot read ${path}: ${why}${other}`, 2);
  }
}
