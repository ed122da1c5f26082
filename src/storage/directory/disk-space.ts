import { stat, statfs } from 'node:fs/promises';
import { Fault } from '../../foundation/fault.ts';
import { SingleFlight } from '../../foundation/single-flight.ts';
import type { Logger } from '../../foundation/telemetry/index.ts';

/** The space on the disk of the data directory. A reserve of it is kept free. */
export interface DiskSpace {
  /**
   * Counts bytes that are about to be written. Throws a {@link Fault} (507) when they would use the reserve. With 0
   * it checks whether anything at all may be written.
   */
  take(bytes: number): void;
  /**
   * Reserves space for bytes that are written later. Throws as `take` does.
   *
   * @param isReserved false to check only that there is space now. Default: true.
   */
  promise(bytes: number, isReserved?: boolean): SpacePromise;
  /** Reads the free space of the disk. Bytes written before the call are on the disk by then, or never will be. */
  look(): Promise<void>;
  /** True when the directory is on this disk. */
  has(directory: string): Promise<boolean>;
}

/** Space reserved for a writer of many pieces, however long that takes. */
export interface SpacePromise {
  /** Reserves more bytes. */
  add(bytes: number): void;
  /**
   * Counts the next bytes that are written: the earlier ones are on the disk by then. Throws a {@link Fault} (507)
   * while space is low, or when the writer exceeds the reserved bytes and there is no space for that.
   */
  spend(bytes: number): void;
  /** Returns the bytes that were not written. */
  end(): void;
}

const unlimitedPromise: SpacePromise = { add() {}, spend() {}, end() {} };

/** For commands, which free disk space or repair data. */
export const unlimitedSpace: DiskSpace = {
  take() {},
  promise: () => unlimitedPromise,
  async look() {},
  has: async () => true,
};

// The right reserve for a server could take all of a small disk.
const largestShare = 0.05;
const reservedInodes = 1000;
const largestInodeShare = 0.01;
// Writes resume only when there is clearly more free space than the reserve, so that they do not stop and start
// repeatedly.
const enough = 1.1;

/** The free space of a disk, and how much of it is kept free. */
export interface DiskState {
  readonly diskBytes: number;
  readonly freeBytes: number;
  readonly reserveBytes: number;
  readonly freeInodes: number;
  /** True when writes must stop. */
  readonly isLow: boolean;
}

/**
 * Returns the state of the disk of a directory.
 *
 * @param reserveBytes bytes to keep free, at most 5 % of the disk
 * @param wasLow writes have stopped: they resume with more free space than the reserve
 */
export async function diskState(
  directory: string,
  reserveBytes: number,
  wasLow = false,
): Promise<DiskState> {
  const { bsize, blocks, bavail, files, ffree } = await statfs(directory);
  const reserve = Math.min(reserveBytes, blocks * bsize * largestShare);
  const inodes = reserveBytes === 0 ? 0 : Math.min(reservedInodes, files * largestInodeShare);
  const factor = wasLow ? enough : 1;
  const freeBytes = bavail * bsize;
  const isLow = freeBytes < reserve * factor || (files > 0 && ffree < inodes * factor);
  return {
    diskBytes: blocks * bsize,
    freeBytes,
    reserveBytes: Math.round(reserve),
    freeInodes: ffree,
    isLow,
  };
}

/** @param reserveBytes bytes to keep free, at most 5 % of the disk */
export async function createDiskSpace(
  directory: string,
  reserveBytes: number,
  log: Logger,
): Promise<DiskSpace> {
  /** Bytes that may be written, according to the last look. */
  let found = 0;
  /** Bytes written since then. */
  let written = 0;
  /** Bytes that are reserved and not written yet, which no look sees. */
  let promised = 0;
  let isLow = false;
  const looks = new SingleFlight<void>();

  const lookNow = async (): Promise<void> => {
    const before = written;
    const wasLow = isLow;
    const {
      diskBytes: _,
      isLow: isLowNow,
      ...figures
    } = await diskState(directory, reserveBytes, wasLow);
    isLow = isLowNow;
    found = figures.freeBytes - figures.reserveBytes;
    // The result may or may not include bytes that were written during the look.
    written -= before;
    if (isLow === wasLow) return;
    if (isLow) log.error(figures, 'disk space is low: writes are refused (507), reads continue');
    else log.warn(figures, 'disk space is available again: writes continue');
  };
  const look = (): Promise<void> => looks.run(lookNow);
  const check = (bytes: number): void => {
    if (isLow || (bytes > 0 && bytes > found - written - promised)) throw full();
  };
  const promise = (bytes: number, isReserved = true): SpacePromise => {
    let open = 0;
    let inFlight = 0;
    let isOver = false;
    const add = (more: number): void => {
      check(more);
      open += more;
      promised += more;
    };
    const settle = (): void => {
      open -= inFlight;
      promised -= inFlight;
      written += inFlight;
      inFlight = 0;
    };
    if (isReserved) add(bytes);
    else check(bytes);
    return {
      add,
      spend(next) {
        settle();
        if (isOver || isLow) throw full();
        if (next > open) add(next - open);
        inFlight = next;
      },
      end() {
        settle();
        isOver = true;
        promised -= open;
        open = 0;
      },
    };
  };
  await look();

  return {
    look,
    promise,
    take(bytes) {
      check(bytes);
      written += bytes;
    },
    async has(other) {
      const [own, its] = await Promise.all([directory, other].map(path => stat(path)));
      return own?.dev === its?.dev;
    },
  };
}

function full(): Fault {
  return new Fault(
    'storage-full',
    'The disk of the service is full up to its reserve, and nothing of this request was stored: ask the operator to free disk space',
    { phase: 'store' },
  );
}
