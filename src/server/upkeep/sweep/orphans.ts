import {
  firstPlace,
  type HostedContent,
  type HostedPlace,
  type HostedRow,
  type HostedStore,
} from '../../../storage/rows/hosted/hosted-store.ts';
import { eachRow } from '../../../storage/rows/small-steps.ts';

/** All in ms since the epoch. */
export interface OrphanTimes {
  /** A blob that was pushed later than this may still be waiting for its manifest. */
  readonly linkedBefore: number;
  /** What was pushed later than this was dated by a clock that was wrong: it counts as pushed now. */
  readonly latest: number;
  readonly now: number;
}

export interface OrphanOptions {
  /** Only report what would be removed. */
  readonly isDryRun?: boolean;
  readonly signal?: AbortSignal;
  /** Called for each blob that is taken out. */
  readonly onUnlinked?: (blob: HostedContent) => void;
}

// Removed in one transaction, which takes some milliseconds.
const mostAtOnce = 32;

/**
 * Takes the blobs that no manifest of their repository refers to out of their repositories, a few at a time;
 * returns how many.
 */
export async function unlinkOrphans(
  hosted: HostedStore,
  times: OrphanTimes,
  { isDryRun = false, signal, onUnlinked }: OrphanOptions,
): Promise<number> {
  let unlinked = 0;
  let waiting: HostedRow[] = [];
  const remove = async (): Promise<void> => {
    const found = waiting;
    waiting = [];
    // Another look in the transaction: a manifest may have come.
    const gone = isDryRun ? found : await hosted.removeOrphans(found, times.linkedBefore);
    unlinked += gone.length;
    for (const { repository, digest, size } of gone) onUnlinked?.({ repository, digest, size });
  };

  let place: HostedPlace = firstPlace;
  const read = async (rows: number) => {
    const page = await hosted.loneBlobsAfter(place, rows);
    place = page.at(-1) ?? place;
    return page;
  };
  for await (const blob of eachRow(read, signal)) {
    if (!blob.isLone) continue;
    const { linkedAt } = blob;
    if (linkedAt > times.latest && !isDryRun) {
      await hosted.redate(blob, times.now);
    }
    if (linkedAt < times.linkedBefore) waiting.push(blob);
    if (waiting.length >= mostAtOnce) await remove();
  }
  await remove();
  return unlinked;
}
