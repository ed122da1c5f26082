import type { ContentStore } from '../../../storage/content/index.ts';
import type { RecipeOrigin } from '../../plan/build-plan.ts';
import { type BuildContext, openBuildContext } from './build-context.ts';
import { openUploadedContext } from './uploaded-context.ts';

/** Opens the files that the caller of a build sent or uploaded. Returns undefined if there are none. */
export async function openSentContext(
  content: ContentStore,
  { context, isUploaded }: Pick<RecipeOrigin, 'context' | 'isUploaded'>,
  signal: AbortSignal,
): Promise<BuildContext | undefined> {
  if (context === undefined) return undefined;
  if (!isUploaded) return openBuildContext(content, context, signal);
  const { tree } = await openUploadedContext(content, context);
  return { tree, async [Symbol.asyncDispose]() {} };
}
