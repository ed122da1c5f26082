import { type CondaPackage, linkOrder } from '../../../conda/index.ts';
import { explicitLine } from '../../../conda/locks/index.ts';
import type { RecipeOrigin } from '../../plan/build-plan.ts';
import type { CondaSource, PlatformLock } from '../../recipe/conda/conda-source.ts';
import { condaRecipe } from '../../recipe/conda/install/conda-recipe.ts';
import type { SolvedPlatform } from './builder-required.ts';

/** Returns a recipe with which a builder installs the packages that were found, without solving them again. */
export function foundRecipe(
  recipe: RecipeOrigin,
  source: CondaSource,
  solution: readonly SolvedPlatform[],
): RecipeOrigin {
  const locks = solution
    .map(({ subdir, packages }): PlatformLock => {
      const urls = inOrder(source, packages).map(it => explicitLine(it.url, it));
      return { subdir, urls, pip: [] };
    })
    .sort((one, other) => (one.subdir < other.subdir ? -1 : 1));
  const [only, ...others] = locks;
  if (only === undefined) return recipe;
  const { dockerfile, files } = condaRecipe(
    source,
    others.length === 0 ? { ...only, form: 'lock' } : { form: 'locks', platforms: locks },
  );
  return { ...recipe, dockerfile, files: Object.fromEntries(files) };
}

/** Returns packages in the order in which they can be installed. Those of a lock file are already in it. */
function inOrder({ wanted }: CondaSource, packages: readonly CondaPackage[]) {
  if (wanted.form !== 'environment') return packages;
  // What packages given by their addresses require is unknown: the solver did not see them.
  const isSolved = ({ record }: CondaPackage) => record !== undefined;
  return [...linkOrder(packages.filter(isSolved)), ...packages.filter(one => !isSolved(one))];
}
