import { triggersIn } from '../../../images/augment/index.ts';
import { type Documents, imageLeaves } from '../../../images/index.ts';
import { parsePlatform } from '../../../oci/naming.ts';
import type { CredentialSource } from '../../../upstream/auth/index.ts';
import type { RecipeOrigin } from '../../plan/build-plan.ts';
import { maxImages, triggeredImages } from '../../recipe/dockerfile/base-images.ts';
import { malformed } from '../../recipe/dockerfile/malformed.ts';
import { aboutBase, type BaseCheckDeps, checkBaseImages, type ShownBase } from './base-check.ts';

export interface RecipeCheckDeps extends BaseCheckDeps {
  readonly documents: Pick<Documents, 'manifest' | 'config'>;
}

// Triggers of an image that a trigger names run, too.
const mostWaves = 5;

/**
 * Checks that the caller may pull all images of a recipe: its base images, and those that `ONBUILD` triggers of them pull.
 * Throws a `Fault` that names the image.
 */
export async function checkRecipeImages(
  recipe: RecipeOrigin,
  deps: RecipeCheckDeps,
  credentials: CredentialSource,
): Promise<readonly ShownBase[]> {
  const found = new Map<string, ShownBase>();
  let names: readonly string[] = recipe.baseImages;
  for (let wave = 0; names.length > 0; wave += 1) {
    if (wave === mostWaves || found.size + names.length > maxImages) {
      malformed(1, `its base images require more than ${maxImages} images by ONBUILD`);
    }
    const bases = await checkBaseImages(names, deps, credentials);
    for (const base of bases) found.set(base.name, base);
    const named = await Promise.all(bases.map(base => imagesTriggeredBy(base, recipe, deps)));
    names = [...new Set(named.flat())].filter(name => !found.has(name));
  }
  return [...found.values()];
}

/** Returns the images that the triggers of an image pull. */
async function imagesTriggeredBy(
  base: ShownBase,
  recipe: RecipeOrigin,
  { documents }: RecipeCheckDeps,
): Promise<readonly string[]> {
  const { name, access, digest, mediaType, served } = base;
  const { dockerfile, options = {}, sifBases = {}, native } = recipe;
  if (native || Object.values(sifBases).includes(name)) return [];
  return aboutBase(name, async () => {
    const source = served ?? { access, documents };
    const root = served?.root ?? (await documents.manifest(access, digest, mediaType));
    const platforms = recipe.platforms.map(parsePlatform);
    const leaves = await imageLeaves(source, root, platforms);
    const triggers = [...new Set(leaves.flatMap(({ config }) => triggersIn(config.bytes)))];
    return triggeredImages(triggers, dockerfile, {
      namedContexts: { ...recipe.namedContexts, ...sifBases },
      buildArgs: options.args ?? {},
      ...(options.target === undefined ? {} : { target: options.target }),
    });
  });
}
