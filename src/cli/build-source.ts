import { readFile } from 'node:fs/promises';
import { CommandError, type Option, text, texts, type Values } from './command.ts';

/** The options that say what to build. */
export const sourceOptions: Readonly<Record<string, Option>> = {
  file: { type: 'string', value: 'FILE', description: 'Dockerfile' },
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
  platform: { type: 'string', value: 'OS/ARCH', description: 'Default: linux/amd64' },
  'push-to': {
    type: 'string',
    value: 'REPOSITORY',
    description: 'Where the image is pushed; default: what the server is configured for',
  },
};

/** The part of a container request that says what to build. Throws {@link CommandError}. */
export async function buildWishOf(values: Values) {
  return {
    ...(await sourceOf(values)),
    containerPlatform: text(values, 'platform'),
    buildRepository: text(values, 'push-to'),
  };
}

async function sourceOf(values: Values) {
  const file = text(values, 'file');
  const environment = text(values, 'environment');
  const entries = texts(values, 'conda');
  const channels = texts(values, 'channel');
  const given = [file, environment, entries[0]].filter(value => value !== undefined);
  if (given.length !== 1) {
    throw new CommandError('Say what to build: one of --file, --conda and --environment', 2);
  }
  if (file !== undefined) return { containerFile: await base64Of(file) };
  return {
    packages: {
      type: 'CONDA',
      ...(environment === undefined ? { entries } : { environment: await base64Of(environment) }),
      ...(channels.length > 0 ? { channels } : {}),
    },
  };
}

async function base64Of(path: string): Promise<string> {
  try {
    return (await readFile(path)).toString('base64');
  } catch (error) {
    throw new CommandError(`${path} cannot be read (${(error as Error).message})`, 2);
  }
}
