import { type Platform, parsePlatform } from '../../../oci/platform.ts';
import { formatReference, parseReference } from '../../../oci/reference.ts';
import type { RecipeOrigin } from '../../plan/build-plan.ts';
import { stagePlatforms } from '../../recipe/dockerfile/base-images.ts';
import { frontendImage } from '../../recipe/dockerfile/frontend-image.ts';

/**
 * Returns the platforms for which a builder may choose images of a base: those of the build, those that FROM asks for, and
 * for the image of a frontend those of the builders.
 *
 * @param builders native platforms of the builders, in the form `linux/amd64`
 */
export function basePlatforms(
  recipe: RecipeOrigin,
  name: string,
  builders: readonly string[] = [],
): readonly Platform[] {
  const { dockerfile, options = {} } = recipe;
  const targets = recipe.platforms.map(parsePlatform);
  const native = builders.map(readPlatform);
  const common = {
    buildArgs: options.args ?? {},
    ...(options.target === undefined ? {} : { target: options.target }),
  };
  const asked = targets.flatMap(platform =>
    (native.length > 0 ? native : [platform]).flatMap(builderPlatform =>
      stagePlatforms(dockerfile, { ...common, platform, builderPlatform }),
    ),
  );
  const isFrontend = name === frontendOf(recipe);
  return [...targets, ...asked.map(readPlatform), ...(isFrontend ? native : [])];
}

/** Returns the full name of the image that reads the Dockerfile. */
function frontendOf({ frontend, dockerfile }: RecipeOrigin): string | undefined {
  const reference = frontend ?? frontendImage(dockerfile)?.reference;
  return reference === undefined || reference === 'builder'
    ? undefined
    : formatReference(parseReference(reference));
}

// Builders accept more platforms than images can be built for.
function readPlatform(text: string): Platform {
  const parts = text.toLowerCase().split('/');
  const [os = '', architecture = '', variant] = parts.length === 1 ? ['linux', ...parts] : parts;
  return { os, architecture, ...(variant === undefined ? {} : { variant }) };
}
