import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { directoryTree, type Found, walkTree } from '../../../buildkit/index.ts';
import { CommandError } from '../../command.ts';
import { readIgnoreFile } from './ignore-file.ts';

const ignoreFile = '.dockerignore';

/** The files of a directory that a build may see. */
export interface ContextFiles {
  readonly files: readonly Found[];
  /** True where another file than the `.dockerignore` among them has decided. */
  readonly isFiltered: boolean;
}

/**
 * What a build may see of a directory, in a fixed order: all but what its .dockerignore names, or
 * `<Dockerfile>.dockerignore` in place of that. Throws a {@link CommandError} for what cannot be read.
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
    for await (const file of walkTree(directoryTree(directory), {
      ...{ includes: [], follows: [], excludes },
    })) {
      found.push(file);
    }
  } catch (error) {
    throw new CommandError(`The directory ${directory}: ${(error as Error).message}`, 2);
  }
  return { files: found, isFiltered: own !== undefined };
}

async function read(path: string): Promise<string | undefined> {
  try {
    return await readFile(path, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw new CommandError(`${path} cannot be read (${(error as Error).message})`, 2);
  }
}
