import { readFile, stat } from 'node:fs/promises';
import {
  type ConfigField,
  type ContainerConfig,
  givenFields,
} from '../../images/augment/container-config.ts';
import { supportedPlatforms } from '../../oci/naming.ts';
import {
  type Command,
  CommandError,
  followExits,
  serverOption,
  serverVariables,
  text,
  texts,
  tokenVariable,
  UsageError,
  type Values,
} from '../command/command.ts';
import { claimOf, claimOptions } from '../server-client.ts';
import { imageOptions, printImage, requestContainer } from './request-container.ts';
import { layerOf, packDirectory } from './source/packed-context.ts';
import { choiceOf, formats, freezeOf } from './source/source-options.ts';

/** `sluice request`: requests a container and prints the name to pull. */
export const requestCommand: Command = {
  summary: 'Request an image, with changes if you want, and print the name to pull',
  usage: ['IMAGE', '--image IMAGE'],
  options: {
    image: { type: 'string', value: 'IMAGE', description: 'Image to serve, such as alpine:3.20' },
    env: {
      type: 'string',
      multiple: true,
      value: 'NAME=VALUE',
      description: 'Set an environment variable',
    },
    entrypoint: {
      type: 'string',
      multiple: true,
      value: 'WORD',
      description: 'Replace the entrypoint: one word for each option, or a JSON array',
    },
    cmd: {
      type: 'string',
      multiple: true,
      value: 'WORD',
      description: 'Replace the command: one word for each option, or a JSON array',
    },
    workdir: { type: 'string', value: 'PATH', description: 'Replace the working directory' },
    layer: {
      type: 'string',
      multiple: true,
      value: 'PATH|URL',
      completes: 'file',
      description: 'Add a layer: a directory, whose content goes to /; a tar.gz file; or its URL',
    },
    include: {
      type: 'string',
      multiple: true,
      value: 'IMAGE',
      description: 'Add the files of another image, below those of --layer',
    },
    platform: {
      type: 'string',
      value: 'OS/ARCH',
      completes: supportedPlatforms,
      description: `Serve only this platform: ${supportedPlatforms.join(' or ')}. Default: all platforms`,
    },
    'push-to': {
      type: 'string',
      value: 'REPOSITORY',
      description:
        'With --freeze: repository to push the image to, registry/path. Default: your own repository on the server, or the one that it has for all',
    },
    freeze: {
      type: 'boolean',
      description: 'Push the changed image to a repository. Its name does not expire',
    },
    format: {
      type: 'string',
      value: 'docker|sif',
      completes: ['docker', 'sif'],
      description:
        'Format of the image. sif, a Singularity image, implies --freeze. Default: docker',
    },
    ...claimOptions,
    server: serverOption,
    ...imageOptions,
  },
  variables: { ...serverVariables, ...tokenVariable },
  exits: followExits,

  async run(values, positionals) {
    const named = text(values, 'image');
    const [image, ...others] = named === undefined ? positionals : [named, ...positionals];
    if (image === undefined) throw new UsageError('Missing argument: IMAGE');
    if (others.length > 0) {
      throw new UsageError(`Expected one image, got ${[image, ...others].join(' and ')}`);
    }
    const frozen = freezeOf(values);
    if (text(values, 'push-to') !== undefined && !frozen.freeze) {
      throw new CommandError('--push-to requires --freeze: only frozen images are pushed', 2);
    }
    const body = {
      containerImage: image,
      containerConfig: await configOf(values),
      ...(values.include === undefined ? {} : { containerIncludes: texts(values, 'include') }),
      containerPlatform: text(values, 'platform'),
      buildRepository: text(values, 'push-to'),
      ...frozen,
      format: choiceOf(values, 'format', formats),
      dryRun: values['dry-run'],
      ...(await claimOf(values)),
      timestamp: new Date().toISOString(),
    };
    return printImage(values, await requestContainer(values, body, ownOptions));
  },
};

/** The options that messages name in place of fields; `sluice build` reads these fields from a file. */
const ownOptions = {
  containerImage: 'IMAGE',
  'containerConfig.env': '--env',
  'containerConfig.entrypoint': '--entrypoint',
  'containerConfig.cmd': '--cmd',
  'containerConfig.workingDir': '--workdir',
  'containerConfig.layers': '--layer',
};

/** The option of each field. */
const configOptions: {
  readonly [Field in ConfigField]-?: (values: Values) => ContainerConfig[Field];
} = {
  entrypoint: values => words(values, 'entrypoint'),
  cmd: values => words(values, 'cmd'),
  workingDir: values => text(values, 'workdir'),
  env: variablesOf,
};

function variablesOf(values: Values): string[] {
  const given = texts(values, 'env');
  const at = given.findIndex(variable => variable.indexOf('=') < 1);
  if (at < 0) return given;
  // Not the value itself: somebody may have written a secret without its name.
  const place = given.length === 1 ? '--env' : `--env number ${at + 1}`;
  throw new CommandError(`${place}: expected NAME=VALUE`, 2);
}

async function configOf(values: Values): Promise<object> {
  const layers = await Promise.all(texts(values, 'layer').map(readLayer));
  const config = Object.entries(configOptions).map(([field, read]) => [field, read(values)]);
  return {
    ...givenFields(Object.fromEntries(config)),
    ...(layers.length > 0 ? { layers } : {}),
  };
}

/** `--cmd sh --cmd=-c`, or `--cmd '["sh","-c"]'`. */
function words(values: Values, name: string): string[] | undefined {
  const given = texts(values, name);
  const [first = ''] = given;
  if (given.length === 0) return undefined;
  if (given.length > 1 || !first.startsWith('[')) return given;
  try {
    const list: unknown = JSON.parse(first);
    if (Array.isArray(list) && list.every(word => typeof word === 'string')) return list;
  } catch {
    // Reported below.
  }
  throw new CommandError(
    `--${name} begins like a JSON array but is not an array of strings: ${first}`,
    2,
  );
}

async function readLayer(location: string): Promise<object> {
  if (/^https?:\/\//i.test(location)) return { location };
  const status = await stat(location).catch(() => undefined);
  if (status?.isDirectory()) return packDirectory(location);
  if (status?.isFile()) return layerOf(await readFile(location));
  throw new CommandError(`--layer ${location}: the directory or file does not exist`);
}
