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

/** The recipe of a source. Pure: the same source gives the same bytes. */
export function recipeOf(source: RecipeSource): Recipe {
  if (source.kind === 'containerFile') return { dockerfile: source.text, files: new Map() };
  return condaRecipe(source);
}
