import { pauseTurn } from '../../../foundation/pause-turn.ts';
import type { ContentStore, KeptContent } from '../../../storage/content/content-store.ts';
import type { ContentRowStore } from '../../../storage/rows/images/content-rows.ts';

export interface UnknownContentOptions {
  /** Only counts the contents. */
  readonly isDryRun: boolean;
  readonly signal?: AbortSignal | undefined;
}

const readAtOnce = 128;

/**
 * Enters a row, used now, for content without one: an earlier version stored it, a backup brought it, or a process
 * ended before it could enter the row. Returns how many contents have no row afterwards.
 */
export async function enterUnknown(
  content: ContentStore,
  contentRows: Pick<ContentRowStore, 'unknown'>,
  { isDryRun, signal }: UnknownContentOptions,
): Promise<number> {
  let left = 0;
  let waiting: KeptContent[] = [];
  const enterWaiting = async (): Promise<void> => {
    const digests = waiting.map(({ digest }) => digest);
    waiting = [];
    const unknown = await contentRows.unknown(digests);
    if (isDryRun) left += unknown.length;
    else await Promise.all(unknown.map(content.claim));
    await pauseTurn();
  };
  for await (const found of content.list()) {
    signal?.throwIfAborted();
    waiting.push(found);
    if (waiting.length >= readAtOnce) await enterWaiting();
  }
  await enterWaiting();
  return left;
}
