import { readFile, stat } from 'node:fs/promises';
import { readSshKey, SshKeyError } from '../../../buildkit/session/ssh/index.ts';
import type { Submission } from '../../../request/index.ts';
import { CommandError, type Option, text, texts, type Values } from '../../command/command.ts';

/** The options that specify how an image is built. */
export const recipeOptions: Readonly<Record<string, Option>> = {
  target: { type: 'string', value: 'STAGE', description: 'Stage of the Dockerfile to build' },
  label: {
    type: 'string',
    multiple: true,
    value: 'NAME=VALUE',
    description: 'Label of the image',
  },
  annotation: {
    type: 'string',
    multiple: true,
    value: 'NAME=VALUE',
    description: "Annotation of the image's manifest",
  },
  created: {
    type: 'string',
    value: 'TIME',
    description:
      'Creation date of the image, in ISO 8601, or now. Default: a fixed date, so that the same build has the same digest',
  },
  'no-cache': { type: 'boolean', description: 'Run all steps, even if the image exists' },
  secret: {
    type: 'string',
    multiple: true,
    value: 'id=ID[,src=FILE|,env=NAME]',
    description: 'Secret for RUN --mount=type=secret,id=ID. Requires --push-to',
  },
  ssh: {
    type: 'string',
    multiple: true,
    value: 'ID=FILE[,FILE]',
    description:
      'Private key for RUN --mount=type=ssh,id=ID (default: --ssh default=FILE). Sends the file to the server; an SSH agent cannot be forwarded. Use a key without a passphrase that can only read, such as a deploy key. Requires --push-to',
  },
  'cache-repository': {
    type: 'string',
    value: 'REPOSITORY',
    description: 'Repository that caches the layers of steps for later builds, registry/path',
  },
};

type Options = Pick<
  Submission,
  | 'buildTarget'
  | 'labels'
  | 'annotations'
  | 'created'
  | 'noCache'
  | 'secrets'
  | 'ssh'
  | 'cacheRepository'
>;

/** Returns the members of the request for these options. Throws {@link CommandError}. */
export async function recipeOptionsOf(values: Values): Promise<Options> {
  const created = text(values, 'created');
  const secrets = await secretsOf(texts(values, 'secret'));
  return {
    buildTarget: text(values, 'target'),
    labels: pairsOf(values, 'label'),
    annotations: pairsOf(values, 'annotation'),
    created: created === 'now' ? new Date().toISOString() : created,
    ...(values['no-cache'] === true ? { noCache: true } : {}),
    secrets: Object.keys(secrets).length > 0 ? secrets : undefined,
    ssh: await readSshOptions(texts(values, 'ssh')),
    cacheRepository: text(values, 'cache-repository'),
  };
}

function pairsOf(values: Values, option: string): Record<string, string> | undefined {
  const given = texts(values, option);
  if (given.length === 0) return undefined;
  return Object.fromEntries(
    given.map(pair => {
      const [, name, value] = /^([^=]+)=(.*)$/s.exec(pair) ?? [];
      if (name !== undefined && value !== undefined) return [name, value];
      throw new CommandError(`--${option} ${pair}: expected NAME=VALUE`, 2);
    }),
  );
}

/** Reads secrets as Docker does: without a file, from the environment variable of that name. */
async function secretsOf(given: readonly string[]): Promise<Record<string, string>> {
  const secrets: Record<string, string> = {};
  for (const option of given) {
    const parts = new Map(
      option.split(',').map(part => {
        const equals = part.indexOf('=');
        return [part.slice(0, equals), part.slice(equals + 1)] as const;
      }),
    );
    const id = parts.get('id');
    const file = parts.get('src') ?? parts.get('source');
    if (!id) throw new CommandError('--secret: expected id=ID,src=FILE or id=ID,env=NAME', 2);
    secrets[id] = (await secretOf(id, file, parts.get('env'))).toString('base64');
  }
  return secrets;
}

async function secretOf(
  id: string,
  file: string | undefined,
  variable: string | undefined,
): Promise<Buffer> {
  const fromEnvironment = process.env[variable ?? id];
  if (file === undefined) {
    if (fromEnvironment !== undefined) return Buffer.from(fromEnvironment);
    throw new CommandError(
      `--secret id=${id}: the environment variable ${variable ?? id} is not set. Set it, or specify a file: src=FILE`,
      2,
    );
  }
  try {
    return await readFile(file);
  } catch (error) {
    throw new CommandError(`--secret id=${id}: ${(error as Error).message}`, 2);
  }
}

const example = '--ssh default=FILE';

/**
 * Reads the private keys of `ID=FILE[,FILE]`, and returns them by id, base64. Throws {@link CommandError} for anything
 * but unencrypted private keys: nothing else is sent to a server.
 */
async function readSshOptions(
  given: readonly string[],
): Promise<Record<string, string[]> | undefined> {
  const keys = new Map<string, string[]>();
  for (const option of given) {
    const [, id, files] = /^([^=]+)=(.+)$/s.exec(option) ?? [];
    if (id === undefined || files === undefined) {
      throw new CommandError(
        `--ssh ${option}: specify the file of a private key, such as ${example}. The file is sent to the server, which cannot use the SSH agent of this machine`,
        2,
      );
    }
    if (keys.has(id)) {
      throw new CommandError(
        `--ssh ${id} is given twice: name it once, and separate its files with commas`,
        2,
      );
    }
    const read = files.split(',').map(file => readKey(`--ssh ${id}`, file));
    keys.set(id, await Promise.all(read));
  }
  return given.length > 0 ? Object.fromEntries(keys) : undefined;
}

async function readKey(option: string, file: string): Promise<string> {
  try {
    if ((await stat(file)).isSocket()) {
      throw new SshKeyError(
        'is a socket: an SSH agent cannot be forwarded to a server. Specify the file of a private key',
      );
    }
    const content = await readFile(file);
    readSshKey(content);
    return content.toString('base64');
  } catch (error) {
    const { message } = error as Error;
    const what = error instanceof SshKeyError ? `${file} ${message}` : message;
    throw new CommandError(`${option}: ${what}`, 2);
  }
}
