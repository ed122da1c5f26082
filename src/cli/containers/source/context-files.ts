import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { directoryTree, type Found, walkTree } from '../../../buildkit/files/index.ts';
import { CommandError } from '../../command/command.ts';
import { readIgnoreFile } from './ignore-file.ts';

const ignoreFile = '.dockerignore';

/** The files of a build context. */
export interface ContextFiles {
  readonly files: readonly Found[];
  /** True when `<Dockerfile>.dockerignore` decided, instead of the `.dockerignore` among the files. */
  readonly isFiltered: boolean;
}

/**
 * Returns the files of a directory in a fixed order, without those that `<Dockerfile>.dockerignore`, or else
 * `.dockerignore`, excludes. Throws a {@link CommandError} for files that cannot be read.
 * Source: Docker, Build context, .dockerignore files.
 */
export async function contextFiles(
  directory: string,
  dockerfile: string | undefined,
): Promise<ContextFiles> {
  const own = dockerfile === undefined ? undefined : await read(`${dockerfile}${ignoreFile}`);
  const excludes = readIgnoreFile(own ?? (await read(join(directory, ignoreFile))) ?? '');
  const found: Found[] = [];
  try {
    for await (const file of walkTree(directoryTree(directory, { marksSpecial: true }), {
      ...{ includes: [], follows: [], excludes },
    })) {
      if (file.entry.isSpecial) throw special(directory, file.path);
      found.push(file);
    }
  } catch (error) {
    if (error instanceof CommandError) throw error;
    throw new CommandError(
      `Cannot read the directory ${directory}: ${(error as Error).message}`,
      2,
    );
  }
  return { files: found, isFiltered: own !== undefined };
}

async function read(path: string): Promise<string | undefined> {
  try {
    return await readFile(path, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw new CommandError(`Cannot read ${path}: ${(error as Error).message}`, 2);
  }
}

function special(directory: string, path: string): CommandError {
  const file = join(directory, path);
  const message = `${file} is a pipe or a device, which a build context cannot have: remove it, or exclude it in .dockerignore`;
  return new CommandError(message, 2);
}
