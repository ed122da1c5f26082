/** Recipes, and plans made of them: pure. */

export { domainOfCaller } from '../domain.ts';
export { orderedChannels, readChannel } from '../recipe/conda/conda-channel.ts';
export { packageUrlsIn } from '../recipe/conda/conda-source.ts';
export {
  type Instruction,
  parseDockerfile,
  plainWords,
} from '../recipe/dockerfile/instructions.ts';
export { recipeKindNamed } from '../recipe/recipe-kinds.ts';
export type { SubmittedCondaOptions, SubmittedPackages } from '../recipe/submitted.ts';
export { maxRecipeBase64 } from '../recipe/text/base64-text.ts';
export {
  checkCompression,
  compressionWarnings,
  type SubmittedCompression,
} from './build-compression.ts';
export { checkOnePlatform, readPlatforms } from './build-platforms.ts';
export { inField } from './field.ts';
export {
  type BuildFields,
  type BuildPlaces,
  frozenPlace,
  frozenPlaces,
  localFrozenPaths,
  planBuild,
  type SentContext,
} from './plan.ts';
export { planFreeze } from './plan-freeze.ts';
export { mirrorTarget, planMirror } from './plan-mirror.ts';
