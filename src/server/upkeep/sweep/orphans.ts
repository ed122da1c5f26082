import type { Digest } from '../../../oci/digest.ts';
import {
  firstPlace,
  type HostedContent,
  type HostedPlace,
  type HostedRow,
  type HostedStore,
} from '../../../storage/rows/hosted/hosted-store.ts';
import { eachRow } from '../../../storage/rows/small-steps.ts';

/** Times in ms since the epoch. */
export interface OrphanTimes {
  /** A blob that was pushed later than this may still be waiting for its manifest. */
  readonly linkedBefore: number;
  /** A blob with a later time was dated by a wrong clock: it counts as pushed now. */
  readonly latest: number;
  readonly now: number;
}

export interface OrphanOptions {
  /** Returns true for content of a live container token. Pulls by its name need the blob in its repository. */
  readonly isNeeded: (digest: Digest) => boolean;
  /** Only reports the blobs, without removing them. */
  readonly isDryRun?: boolean;
  readonly signal?: AbortSignal;
  /** Called for each removed blob. */
  readonly onUnlinked?: (blob: HostedContent) => void;
}

// Blobs per transaction, which takes some milliseconds.
const mostAtOnce = 32;

/**
 * Removes the blobs that neither a manifest of their repository nor a live container token refers to from their
 * repositories, a few at a time; returns how many.
 */
export async function unlinkOrphans(
  hosted: HostedStore,
  times: OrphanTimes,
  { isNeeded, isDryRun = false, signal, onUnlinked }: OrphanOptions,
): Promise<number> {
  let unlinked = 0;
  let waiting: HostedRow[] = [];
  const remove = async (): Promise<void> => {
    const found = waiting;
    waiting = [];
    // The transaction checks again: a manifest may have come.
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
    if (linkedAt < times.linkedBefore && !isNeeded(blob.digest)) waiting.push(blob);
    if (waiting.length >= mostAtOnce) await remove();
  }
  await remove();
  return unlinked;
}
