import { defaultPlatform } from '../../oci/naming.ts';
import type { RecipeRequest } from './recipe-kind.ts';
import { type RecipeSource, recipeKinds } from './recipe-kinds.ts';
import { spackRetired } from './submitted.ts';
import { refuse } from './text/refuse.ts';

/**
 * Returns the source that a request specifies, decoded, checked and normalised. Throws a `Fault` (400) that names the
 * field and the remedy, also when the request specifies no source. Source: specification, sections 2.1 and 2.3.
 *
 * @param platforms target platforms of the build
 */
export function readBuildSource(
  submitted: RecipeRequest['submitted'],
  platforms: RecipeRequest['platforms'] = [defaultPlatform],
): RecipeSource {
  const { containerFile, condaFile, spackFile, packages } = submitted;
  if (spackFile !== undefined) refuse(`'spackFile': ${spackRetired}`);
  if (packages !== undefined && (containerFile !== undefined || condaFile !== undefined)) {
    const other = containerFile === undefined ? 'condaFile' : 'containerFile';
    refuse(`'${other}' and 'packages' exclude each other: send one of them`);
  }
  for (const kind of recipeKinds) {
    const source = kind.read({ submitted, platforms });
    if (source) return source;
  }
  refuse("There is nothing to build: send 'containerFile', 'packages' or 'condaFile'");
}
