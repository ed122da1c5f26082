import { Fault } from '../../foundation/fault.ts';
import type { SpacePromise } from '../../storage/directory/index.ts';

/** Limits of a conversion. A conversion that exceeds one fails with a {@link Fault} of kind `too-large`. */
export interface ConvertLimits {
  /** Files, directories and links in all layers together. */
  readonly maxEntries: number;
  /** Bytes that all layers together may unpack to. */
  readonly maxUnpackedBytes: number;
  /** Bytes on disk at any moment: the fetched layers and the SIF file. */
  readonly maxScratchBytes: number;
}

/**
 * @param limit the limit that the image exceeds, such as `1000 files`
 * @param setting the setting of the limit, such as `maxFiles`; undefined for a limit that cannot be changed
 */
export function imageTooLarge(limit: string, setting?: string): Fault {
  const orElse = setting === undefined ? '' : `, or ask the operator to raise sif.${setting}`;
  return new Fault(
    'too-large',
    `The image exceeds the limit of ${limit} for Singularity images: make it smaller${orElse}`,
    { phase: 'limit' },
  );
}

/** Tracks the disk space that one conversion uses. */
export interface ScratchSpace {
  /** Reserves bytes. Throws a {@link Fault} if they exceed the limit of the conversion or the free disk space. */
  take(bytes: number): void;
  /** Counts reserved bytes that are about to be written. Throws a {@link Fault} while the disk has no space. */
  write(bytes: number): void;
  /** Counts removed bytes. */
  give(bytes: number): void;
  /** Reserves bytes for a copy that only improves speed. Returns false, and reserves nothing, if there is no room. */
  takeCopy(bytes: number): boolean;
  giveCopy(bytes: number): void;
}

/** The fraction of the space for copies that only improve speed. The rest is for required files. */
const copyPart = 0.25;

/** @param disk space for this conversion only; the caller releases it */
export function createScratchSpace(
  { maxScratchBytes }: ConvertLimits,
  disk: SpacePromise,
): ScratchSpace {
  let taken = 0;
  let copied = 0;
  return {
    take(bytes) {
      taken += bytes;
      if (taken > maxScratchBytes)
        throw imageTooLarge(`${maxScratchBytes} bytes of disk space`, 'maxScratchBytes');
      disk.add(bytes);
    },
    write: disk.spend,
    give(bytes) {
      taken -= bytes;
    },
    takeCopy(bytes) {
      const hasRoom =
        copied + bytes <= copyPart * maxScratchBytes && taken + bytes <= maxScratchBytes;
      if (!hasRoom) return false;
      try {
        disk.add(bytes);
        disk.spend(bytes);
      } catch {
        return false;
      }
      taken += bytes;
      copied += bytes;
      return true;
    },
    giveCopy(bytes) {
      taken -= bytes;
      copied -= bytes;
    },
  };
}

/** Formats the time since a moment (of `performance.now`) for people: `4.5 s`. */
export function showSince(moment: number): string {
  return `${((performance.now() - moment) / 1000).toFixed(1)} s`;
}
