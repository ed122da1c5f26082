import type { Recipe } from '../../src/builds/recipe/recipe-kind.ts';
import { type RecipeSource, recipeKindNamed } from '../../src/builds/recipe/recipe-kinds.ts';

/** Returns the recipe that makes the image of a source, without options. */
export function recipeOf(source: RecipeSource): Recipe {
  return recipeKindNamed(source.kind).recipe(source, {});
}
