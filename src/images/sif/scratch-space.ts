import type { SpacePromise } from '../../storage/directory/index.ts';
import { type ConvertLimits, imageTooLarge } from './limits.ts';

/** Tracks the disk space that one conversion uses. */
export interface ScratchSpace {
  /** Reserves bytes. Throws a {@link Fault} if they exceed the limit of the conversion or the free disk space. */
  take(bytes: number): void;
  /** Counts reserved bytes that are about to be written. Throws a {@link Fault} while the disk has no space. */
  write(bytes: number): void;
  /** Reserves disk space for the output of another program, before its size is known. */
  expect(bytes: number): void;
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
    expect: disk.add,
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
