import { maskAddresses } from '../../../buildkit/index.ts';
import type { PlatformLayers } from '../../../builds/logs/build-step.ts';
import { type BuildPlan, type RecipeOrigin, recipeIn } from '../../../builds/plan/build-plan.ts';
import { packageUrlsIn } from '../../../builds/recipe/conda/conda-source.ts';
import { parseDockerfile } from '../../../builds/recipe/dockerfile/instructions.ts';
import { recipeKindNamed } from '../../../builds/recipe/recipe-kinds.ts';
import type { ShownStep } from '../shown-step.ts';
import { definitionLines } from './definition-lines.ts';
import { type InstructionPlace, placeKey, placesOf } from './instruction-places.ts';
import type { RecipeLine } from './recipe-line.ts';

/** What an image is made from. */
export interface ShownRecipe {
  /** How people call it, such as `Dockerfile`. */
  readonly title: string;
  /** Undefined for an existing image that is only copied. */
  readonly lines: readonly RecipeLine[];
  readonly facts: readonly (readonly [string, string])[];
  /** Other texts of the build by their titles, such as the files that the caller sent beside the recipe. */
  readonly others?: readonly (readonly [string, string])[] | undefined;
}

interface Course {
  readonly steps: readonly ShownStep[];
  readonly failure: { readonly words: string } | undefined;
  readonly platforms: readonly PlatformLayers[];
}

/** Returns the recipe of a build with what is known about each of its lines, without credentials. */
export function shownRecipe(plan: BuildPlan, course: Course): ShownRecipe {
  const recipe = recipeIn(plan);
  if (!recipe) {
    const { origin } = plan;
    const from = origin.kind === 'image' ? `${origin.repository}@${origin.digest}` : '';
    return { title: 'Image', lines: [], facts: [['Made from', from]] };
  }
  if (recipe.native) return nativeRecipe(recipe);
  const text = maskAddresses(recipe.dockerfile);
  const isGenerated = recipeKindNamed(recipe.recipe).isGenerated;
  const others = Object.entries(recipe.files).map(([path, file]): [string, string] => {
    return [path, maskAddresses(file)];
  });
  if (recipe.original !== undefined) {
    return {
      title: 'Definition file',
      lines: definitionLines(maskAddresses(recipe.original), course.steps),
      facts: factsOf(recipe),
      others: [['The Dockerfile that this server made of it', text], ...others],
    };
  }
  return {
    others,
    title: isGenerated ? 'Dockerfile that this server wrote' : 'Dockerfile',
    lines: dockerfileLines(text, course),
    facts: factsOf(recipe),
  };
}

/** The packages of an image that Sluice makes without a Dockerfile. */
function nativeRecipe(recipe: RecipeOrigin): ShownRecipe {
  const { native } = recipe;
  if (!native) return { title: '', lines: [], facts: [] };
  const { wanted, channels, options } = native;
  const texts =
    wanted.form === 'environment'
      ? [...wanted.packages, ...options.basePackages]
      : wanted.form === 'lockUrl'
        ? [wanted.url]
        : packageUrlsIn(wanted);
  return {
    title: wanted.form === 'environment' ? 'Conda packages' : 'Conda lock file',
    lines: texts.map(text => plainLine(maskAddresses(text))),
    facts: [
      ['Channels', channels.map(maskAddresses).join(', ')],
      ['Base image', options.baseImage],
      ...factsOf(recipe),
    ],
  };
}

function factsOf(recipe: RecipeOrigin): readonly (readonly [string, string])[] {
  const { platforms, baseImages, context, isUploaded, options, native } = recipe;
  const facts: [string, string][] = [['Platforms', platforms.join(', ')]];
  if (!native && baseImages.length > 0) facts.push(['Base images', baseImages.join(', ')]);
  if (context !== undefined) {
    facts.push([
      'Build context',
      `${isUploaded ? 'uploaded as an artifact' : 'tar file'}, ${context}`,
    ]);
  }
  if (options?.target !== undefined) facts.push(['Stage', options.target]);
  const args = Object.keys(options?.args ?? {});
  if (args.length > 0) facts.push(['Build arguments', args.join(', ')]);
  if (options?.noCache) facts.push(['Cache', 'not used, as requested']);
  return facts;
}

function dockerfileLines(text: string, course: Course): readonly RecipeLine[] {
  const lines = text.split('\n');
  if (lines.at(-1) === '') lines.pop();
  const places = readPlaces(text);
  const lineOf = new Map(places.map(({ key, line }) => [key, line]));
  const steps = new Map<number, ShownStep>();
  for (const step of course.steps) {
    const line = lineOf.get(placeKey(step.name) ?? '');
    if (line !== undefined) steps.set(line, slower(steps.get(line), step));
  }
  const sizes = layerSizes(places, course.platforms);
  const [, failed] = /\(Dockerfile, line (\d+)\)/.exec(course.failure?.words ?? '') ?? [];
  return lines.map((line, at) => {
    const step = steps.get(at + 1);
    return {
      ...{ text: line, step, layerBytes: sizes.get(at + 1) },
      isFailed: failed === undefined ? step?.state === 'failed' : Number(failed) === at + 1,
    };
  });
}

/** Several platforms run a line each: the failed one counts, then the slowest. */
function slower(one: ShownStep | undefined, other: ShownStep): ShownStep {
  if (!one || other.state === 'failed') return other;
  if (one.state === 'failed') return one;
  return (other.spentMs ?? 0) > (one.spentMs ?? 0) ? other : one;
}

/** A file with errors has no places. */
function readPlaces(text: string): readonly InstructionPlace[] {
  try {
    return placesOf(parseDockerfile(text).instructions);
  } catch {
    return [];
  }
}

/** Returns the sizes of the layers that the last stage added, by line. They are known only if all fit. */
function layerSizes(
  places: readonly InstructionPlace[],
  [first]: readonly PlatformLayers[],
): ReadonlyMap<number, number> {
  const wanted = places.filter(({ isInLastStage, name }) => isInLastStage && name !== 'FROM');
  const made = (first?.layers ?? []).flatMap(({ by, size }) => {
    const [, name] = /^(RUN|COPY|ADD|WORKDIR) /.exec(by ?? '') ?? [];
    return name === undefined ? [] : [{ name, size }];
  });
  const last = wanted.length === 0 ? [] : made.slice(-wanted.length);
  const fits = wanted.every(({ name }, at) => last[at]?.name === name);
  if (!fits) return new Map();
  return new Map(wanted.map(({ line }, at) => [line, last[at]?.size ?? 0]));
}

const plainLine = (text: string): RecipeLine => ({
  ...{ text, isFailed: false, step: undefined, layerBytes: undefined },
});
