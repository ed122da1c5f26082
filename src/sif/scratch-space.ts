import { type ConvertLimits, imageTooLarge } from './limits.ts';

/** Keeps account of the disk space that one conversion takes. */
export interface ScratchSpace {
  /** Throws a {@link Fault} when it is more than the conversion may take. */
  take(bytes: number): void;
  give(bytes: number): void;
  /** The same for what is kept for speed only; false, and nothing is taken, when there is no room for it. */
  takeCopy(bytes: number): boolean;
  giveCopy(bytes: number): void;
}

/** The part of the space that may be taken for speed: the rest is for what cannot be done without. */
const copyPart = 0.25;

export function createScratchSpace({ maxScratchBytes }: ConvertLimits): ScratchSpace {
  let taken = 0;
  let copied = 0;
  return {
    take(bytes) {
      taken += bytes;
      if (taken > maxScratchBytes) throw imageTooLarge(`${maxScratchBytes} bytes of disk space`);
    },
    give(bytes) {
      taken -= bytes;
    },
    takeCopy(bytes) {
      const hasRoom =
        copied + bytes <= copyPart * maxScratchBytes && taken + bytes <= maxScratchBytes;
      if (!hasRoom) return false;
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
