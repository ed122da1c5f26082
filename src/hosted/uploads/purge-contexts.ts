import type { ContextStore } from '../../storage/rows/hosted/context-rows.ts';
import type { HostedStore } from '../../storage/rows/hosted/hosted-store.ts';
import { eachRow } from '../../storage/rows/small-steps.ts';
import { contextPrefix } from './context-repository.ts';

/**
 * Removes the build contexts that were not pushed since the moment (ms since the epoch), a few at a time. A sweep then
 * removes their blobs, except those that an unfinished build needs.
 */
export async function purgeContexts(
  contexts: ContextStore,
  hosted: Pick<HostedStore, 'removeManifest'>,
  before: number,
  signal?: AbortSignal,
): Promise<void> {
  const read = (limit: number) => contexts.old(contextPrefix, before, limit);
  for await (const { repository, digest } of eachRow(read, signal)) {
    await hosted.removeManifest(repository, digest);
  }
}
