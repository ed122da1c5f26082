import { readFile, stat } from 'node:fs/promises';
import {
  type ConfigField,
  type ContainerConfig,
  givenFields,
} from '../../images/augment/container-config.ts';
import { type Command, CommandError, text, texts, type Values } from '../command.ts';
import { post, serverOption } from '../server/server-client.ts';
import { claimOf, claimOptions } from './caller-options.ts';
import { answerOptions, type ImageAnswer, tellImage } from './image-answer.ts';
import { layerOf, packDirectory } from './source/pack.ts';

/** `sluice request`: asks for a container and prints the name to pull. */
export const requestCommand: Command = {
  summary: 'Ask for an image with changes and print the name to pull',
  usage: 'request --image IMAGE [options]',
  options: {
    image: { type: 'string', value: 'IMAGE', description: 'The image to serve' },
    env: {
      type: 'string',
      multiple: true,
      value: 'NAME=VALUE',
      description: 'Set a variable of the environment; repeatable',
    },
    entrypoint: {
      type: 'string',
      multiple: true,
      value: 'WORD',
      description: 'Replace the entrypoint: one word each time, or a JSON array',
    },
    cmd: {
      type: 'string',
      multiple: true,
      value: 'WORD',
      description: 'Replace the command: one word each time, or a JSON array',
    },
    workdir: { type: 'string', value: 'PATH', description: 'Replace the working directory' },
    layer: {
      type: 'string',
      multiple: true,
      value: 'PATH|URL',
      description: 'Add a layer: a directory (its content goes to /), a tar.gz file or its URL',
    },
    platform: { type: 'string', value: 'OS/ARCH', description: 'linux/amd64 or linux/arm64 only' },
    'push-to': {
      type: 'string',
      value: 'REPOSITORY',
      description: 'With --freeze: where the changed image is pushed',
    },
    freeze: { type: 'boolean', description: 'Push the changed image, under a name for good' },
    format: {
      type: 'string',
      value: 'docker|sif',
      description: 'sif, with --freeze: a Singularity image',
    },
    ...claimOptions,
    server: serverOption,
    ...answerOptions,
  },

  async run(values, positionals) {
    const named = text(values, 'image');
    const [image, ...others] = named === undefined ? positionals : [named, ...positionals];
    if (image === undefined) throw new CommandError('Name the image: --image alpine:3.20', 2);
    if (others.length > 0) {
      throw new CommandError(`One image can be named, not ${[image, ...others].join(' and ')}`, 2);
    }
    if (text(values, 'push-to') !== undefined && !values.freeze) {
      throw new CommandError('--push-to goes with --freeze: what is not frozen is not pushed', 2);
    }
    const answer = (await post(values, '/v1alpha2/container', {
      containerImage: image,
      containerConfig: await configOf(values),
      containerPlatform: text(values, 'platform'),
      buildRepository: text(values, 'push-to'),
      freeze: values.freeze,
      format: text(values, 'format'),
      dryRun: values['dry-run'],
      ...claimOf(values),
      timestamp: new Date().toISOString(),
    })) as ImageAnswer;
    return tellImage(values, answer);
  },
};

/** The option of each field. */
const configOptions: {
  readonly [Field in ConfigField]-?: (values: Values) => ContainerConfig[Field];
} = {
  entrypoint: values => words(values, 'entrypoint'),
  cmd: values => words(values, 'cmd'),
  workingDir: values => text(values, 'workdir'),
  env: values => texts(values, 'env'),
};

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
    // Told below.
  }
  throw new CommandError(
    `--${name} begins like a JSON array but is no array of strings: ${first}`,
    2,
  );
}

async function readLayer(location: string): Promise<object> {
  if (/^https?:\/\//i.test(location)) return { location };
  const status = await stat(location).catch(() => undefined);
  if (status?.isDirectory()) return packDirectory(location);
  if (status?.isFile()) return layerOf(await readFile(location));
  throw new CommandError(`--layer ${location}: there is no such directory or file`);
}
