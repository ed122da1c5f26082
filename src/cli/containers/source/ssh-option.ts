import { readFile, stat } from 'node:fs/promises';
import { readSshKey, SshKeyError } from '../../../buildkit/session/ssh/index.ts';
import { CommandError } from '../../command/command.ts';

const example = '--ssh default=FILE';

/**
 * Reads the private keys of `ID=FILE[,FILE]`, and returns them by id, base64. Throws {@link CommandError} for anything
 * but unencrypted private keys: nothing else is sent to a server.
 */
export async function readSshOptions(
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
