import { statfs } from 'node:fs/promises';
import { Fault } from '../fault.ts';
import type { Logger } from '../telemetry.ts';

/** The space on the disk of the data directory, of which a reserve is kept free. */
export interface DiskSpace {
  /**
   * Counts bytes that are about to be written. Throws a {@link Fault} (507) when they would go into the
   * reserve; 0 asks whether anything at all may be written.
   */
  take(bytes: number): void;
  /** Looks at the disk: what was counted since the last look is on it by then, or never will be. */
  look(): Promise<void>;
}

/** For commands, which make room or repair. */
export const unlimitedSpace: DiskSpace = { take() {}, async look() {} };

// A reserve that is right for a server would be all of a small disk.
const largestShare = 0.05;
const reservedInodes = 1000;
const largestInodeShare = 0.01;
// Writes begin again only when there is clearly more than the reserve, so that they do not come and go.
const enough = 1.1;

/** @param reserveBytes kept free, but at most 5 % of the disk */
export async function createDiskSpace(
  directory: string,
  reserveBytes: number,
  log: Logger,
): Promise<DiskSpace> {
  let left = 0;
  let isLow = false;

  const look = async (): Promise<void> => {
    const { bsize, blocks, bavail, files, ffree } = await statfs(directory);
    const reserve = Math.min(reserveBytes, blocks * bsize * largestShare);
    const inodes = reserveBytes === 0 ? 0 : Math.min(reservedInodes, files * largestInodeShare);
    const factor = isLow ? enough : 1;
    const freeBytes = bavail * bsize;
    const wasLow = isLow;
    isLow = freeBytes < reserve * factor || (files > 0 && ffree < inodes * factor);
    left = freeBytes - reserve;
    if (isLow === wasLow) return;
    const figures = { freeBytes, reserveBytes: Math.round(reserve), freeInodes: ffree };
    if (isLow) log.error(figures, 'disk space is low: writes are refused (507), reads go on');
    else log.warn(figures, 'there is disk space again: writes go on');
  };
  await look();

  return {
    look,
    take(bytes) {
      if (isLow || bytes > left) throw full();
      left -= bytes;
    },
  };
}

function full(): Fault {
  return new Fault(
    'storage-full',
    'The disk of the service is full up to its reserve, and nothing was kept of this request: ask the operator to free disk space',
    { phase: 'store' },
  );
}
