import { maskAddresses } from '../../buildkit/index.ts';
import { type BuildPlan, recipeIn } from '../../builds/plan/build-plan.ts';
import { recipeKindNamed } from '../../builds/recipe/recipe-kinds.ts';
import { longestAddress } from '../ask/ask-form.ts';

/**
 * Returns the address of the first page with its form filled with the recipe of a build; undefined for a recipe that
 * the form cannot hold, such as one with a build context, or with a password in an address.
 */
export function againAddress(plan: BuildPlan): string | undefined {
  const recipe = recipeIn(plan);
  if (!recipe || recipe.context !== undefined) return undefined;
  const { native, dockerfile, platforms } = recipe;
  const fields: [string, string][] = [];
  if (native?.wanted.form === 'environment' && native.wanted.pip.length === 0) {
    const { wanted, channels, options } = native;
    fields.push(
      ['by', 'packages'],
      ...wanted.packages.map((one): [string, string] => ['package', one]),
      ['channels', channels.join('\n')],
      ['base', options.baseImage],
    );
  } else if (!native && !recipeKindNamed(recipe.recipe).isGenerated) {
    fields.push(['by', 'dockerfile'], ['dockerfile', dockerfile]);
  } else return undefined;
  for (const platform of platforms) fields.push(['platform', platform]);
  if (plan.sif) fields.push(['format', 'sif']);
  const isSecret = fields.some(([, text]) => maskAddresses(text) !== text);
  const address = `/?${new URLSearchParams(fields)}`;
  return isSecret || address.length > longestAddress ? undefined : address;
}
