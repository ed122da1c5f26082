import { type ContextRow, type ContextStore, eachRow } from '../../storage/rows/index.ts';
import { contextPrefix } from './context-repository.ts';

/**
 * Removes the build contexts that were not pushed since the moment (ms since the epoch), a few at a time. A sweep then
 * removes their blobs, except those that an unfinished build needs.
 */
export async function purgeContexts(
  contexts: ContextStore,
  before: number,
  signal?: AbortSignal,
): Promise<void> {
  let last: ContextRow | undefined;
  const read = async (limit: number) => {
    const page = await contexts.after(contextPrefix, last, before, limit);
    last = page.at(-1) ?? last;
    return page;
  };
  for await (const context of eachRow(read, signal)) {
    // Another look in the transaction: its client may have pushed it again.
    if (context.isOld) await contexts.removeOld(context, before);
  }
}
