import type { RecipeSource } from './build-source.ts';
import { condaRecipe } from './conda-recipe.ts';

export { lockPath } from './conda-recipe.ts';

/** What the builder is given. */
export interface Recipe {
  /** Text of the Dockerfile. */
  readonly dockerfile: string;
  /** Files of the build context: text by path. */
  readonly files: ReadonlyMap<string, string>;
  /** The stage that holds nothing but the lock file, at {@link lockPath}; absent when there is none. */
  readonly lockStage?: string;
}

// Where a Dockerfile that comes with a Conda environment file copies it from.
const condaFileName = 'conda.yml';

/** The recipe of a source. Pure: the same source gives the same bytes. */
export function recipeOf(source: RecipeSource): Recipe {
  if (source.kind === 'containerFile') {
    const { text, condaFile } = source;
    const files = new Map(condaFile === undefined ? [] : [[condaFileName, condaFile]]);
    return { dockerfile: text, files };
  }
  return condaRecipe(source);
}
