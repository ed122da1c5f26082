/** Recipes, and plans made of them: pure. */

export { domainOfCaller } from '../domain.ts';
export { packageUrlsIn } from '../recipe/conda/conda-source.ts';
export { orderedChannels, readChannel } from '../recipe/conda/package-spec.ts';
export { condaTwins } from '../recipe/cran/read-cran.ts';
export {
  type Instruction,
  parseDockerfile,
  plainWords,
} from '../recipe/dockerfile/instructions.ts';
export { recipeKindNamed } from '../recipe/recipe-kinds.ts';
export type {
  SubmittedCondaOptions,
  SubmittedCranOptions,
  SubmittedPackages,
  SubmittedPipOptions,
} from '../recipe/submitted.ts';
export { inField, maxRecipeBase64 } from '../recipe/text/text-field.ts';
export {
  checkCompression,
  compressionWarnings,
  type SubmittedCompression,
} from './build-compression.ts';
export { checkOnePlatform, readPlatforms } from './build-options.ts';
export {
  type BuildFields,
  type BuildPlaces,
  frozenPlace,
  frozenPlaces,
  localFrozenPaths,
  planBuild,
  type SentContext,
} from './plan.ts';
export { mirrorTarget, planFreeze, planMirror } from './plan-copies.ts';
