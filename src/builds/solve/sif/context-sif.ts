import { open } from 'node:fs/promises';
import type { FileTree, TreeEntry } from '../../../buildkit/index.ts';
import { Fault } from '../../../foundation/fault.ts';
import { shownText } from '../../../images/sif/definition/index.ts';
import type { ScratchSpace } from '../../../images/sif/making.ts';
import { entryAt } from '../context/entry-at.ts';

/**
 * Copies a SIF file of a build context to a new file. Throws a {@link Fault} that names the file if the context has none
 * there, or the limits do not allow its size.
 *
 * @param path a normalised path below the root of the tree
 */
export async function copyContextSif(
  tree: FileTree,
  path: string,
  target: string,
  space: Pick<ScratchSpace, 'take' | 'write'>,
  signal: AbortSignal,
): Promise<void> {
  const { size } = await fileAt(tree, path);
  space.take(size);
  await using file = await open(target, 'wx', 0o600);
  let written = 0;
  for await (const piece of tree.read(path)) {
    signal.throwIfAborted();
    written += piece.length;
    if (written > size) break;
    space.write(piece.length);
    await file.writeFile(piece);
  }
  if (written !== size) refuse(path, 'changed while it was read: request the build again');
}

/** Does work for a SIF file of a build context. Its failures name the file, and are those of the caller. */
export async function aboutContextSif<T>(path: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof Fault) || error.kind !== 'upstream') throw error;
    throw new Fault('bad-request', `${nameOfContextSif(path)} cannot be a base: ${error.message}`, {
      phase: 'build',
      cause: error,
    });
  }
}

async function fileAt(tree: FileTree, path: string): Promise<TreeEntry> {
  const found = await entryAt(tree, path);
  switch (found?.kind) {
    case 'file':
      return found;
    case 'directory':
      return refuse(
        path,
        "is a directory: make a SIF file of it with 'apptainer build base.sif DIRECTORY'",
      );
    case 'symlink':
      return refuse(path, 'is a link to something that is not in the build context');
  }
  return refuse(path, 'does not exist: check its path, and what .dockerignore excludes');
}

function refuse(path: string, what: string): never {
  throw new Fault('bad-request', `${nameOfContextSif(path)} ${what}`, { phase: 'build' });
}

/** Returns what messages call a SIF file of a build context. */
export function nameOfContextSif(path: string): string {
  return `The file ${shownText(path)} of the build context`;
}
