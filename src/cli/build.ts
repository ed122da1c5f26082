import { readFile } from 'node:fs/promises';
import { jsonOption, post, serverOption } from './client.ts';
import { type Command, CommandError, text, texts, type Values } from './command.ts';
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
    await: { type: 'boolean', description: 'Wait for the build, and show its log meanwhile' },
    server: serverOption,
    json: jsonOption,
  },

  async run(values) {
    const answer = (await post(values, '/v1alpha2/container', {
      ...(await sourceOf(values)),
      containerPlatform: text(values, 'platform'),
      buildRepository: text(values, 'push-to'),
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

async function sourceOf(values: Values): Promise<object> {
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
