import { memoryTree } from '../../buildkit/index.ts';
import { Fault } from '../../foundation/fault.ts';
import type { ShelllessBuild } from '../../images/sif/definition/index.ts';
import type { ContentStore } from '../../storage/content/index.ts';
import type { RecipeOrigin } from '../plan/build-plan.ts';
import { entryAt } from './context/entry-at.ts';
import { followedLinks } from './context/followed-links.ts';
import { openSentContext } from './context/sent-context.ts';

/**
 * Returns the recipe that copies files into a base image without a shell. Throws a {@link Fault} with the line of the
 * definition file for anything but a file: what becomes of a directory depends on the base image.
 */
export async function shelllessRecipe(
  recipe: RecipeOrigin,
  { dockerfile, files }: ShelllessBuild,
  content: ContentStore,
  signal: AbortSignal,
): Promise<RecipeOrigin> {
  await using sent = await openSentContext(content, recipe, signal);
  const tree = followedLinks(sent?.tree ?? memoryTree({}));
  for (const [path, line] of files) {
    const entry = await entryAt(tree, path);
    if (entry?.kind === 'file') continue;
    const what = entry === undefined ? 'does not exist' : 'is not a file';
    throw new Fault(
      'bad-request',
      `'%files' of the definition file, line ${line}: '${path}' ${what}, and the base image has no /bin/sh to copy anything else: name each file, or build from an image that has a shell`,
      { phase: 'build' },
    );
  }
  return { ...recipe, dockerfile, hasCopyModes: true };
}
