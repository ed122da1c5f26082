import type { SpacePromise } from '../../storage/directory/disk-space.ts';
import { type ConvertLimits, imageTooLarge } from './limits.ts';

/** Keeps account of the disk space that one conversion takes. */
export interface ScratchSpace {
  /** Throws a {@link Fault} when it is more than the conversion may take, or than the disk has. */
  take(bytes: number): void;
  /** Counts bytes of what was taken that are about to be written. Throws a {@link Fault} while the disk has no space. */
  write(bytes: number): void;
  /** Takes space on the disk ahead for what another program writes, before its size is known. */
  expect(bytes: number): void;
  /** Counts removed bytes. */
  give(bytes: number): void;
  /** The same for what is kept for speed only; false, and nothing is taken, when there is no room for it. */
  takeCopy(bytes: number): boolean;
  giveCopy(bytes: number): void;
}

/** The part of the space that may be taken for speed: the rest is for what cannot be done without. */
const copyPart = 0.25;

/** @param disk space for this conversion alone; the caller ends it */
export function createScratchSpace(
  { maxScratchBytes }: ConvertLimits,
  disk: SpacePromise,
): ScratchSpace {
  let taken = 0;
  let copied = 0;
  return {
    take(bytes) {
      taken += bytes;
      if (taken > maxScratchBytes) throw imageTooLarge(`${maxScratchBytes} bytes of disk space`);
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
