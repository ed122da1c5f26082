import type { RecipeSource } from './build-source.ts';
import { condaRecipe } from './conda/conda-recipe.ts';
import type { Recipe } from './recipe.ts';

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
