import { buildKey, canonicalText } from '../../src/builds/plan/build-key.ts';
import { imageName } from '../../src/builds/plan/image-name.ts';
import { readBuildSource } from '../../src/builds/recipe/recipe-kinds.ts';
import type { SubmittedBuild } from '../../src/builds/recipe/submitted.ts';
import { recipeOf } from '../builds/recipe-of.ts';

/**
 * Returns the result for a request by file name: the Dockerfile and its context, the canonical text of the key, and the
 * key with the names.
 */
export function built(submitted: SubmittedBuild): ReadonlyMap<string, string> {
  const source = readBuildSource(submitted);
  const { dockerfile, files } = recipeOf(source);
  const repository = 'registry.example.com/team/build';
  const identity = { source, repository, platforms: ['linux/amd64'] };
  const key = buildKey(identity);
  const names = (['none', 'tagPrefix', 'imageSuffix'] as const).map(
    strategy => `${strategy}: ${imageName({ repository, key, source, strategy })}`,
  );
  return new Map([
    ['Dockerfile', dockerfile],
    ...[...files].map(([path, text]) => [`context/${path}`, text] as const),
    ['canonical.txt', canonicalText(identity)],
    ['names.txt', `${names.join('\n')}\n`],
  ]);
}

/** Returns true for the files that determine the content of the image. */
export function isRecipe(path: string): boolean {
  return path === 'Dockerfile' || path.startsWith('context/');
}
