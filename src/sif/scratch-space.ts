import { type ConvertLimits, imageTooLarge } from './limits.ts';

/** Keeps account of the disk space that one conversion takes. */
export interface ScratchSpace {
  /** Throws a {@link Fault} when it is more than the conversion may take. */
  take(bytes: number): void;
  give(bytes: number): void;
}

export function createScratchSpace({ maxScratchBytes }: ConvertLimits): ScratchSpace {
  let taken = 0;
  return {
    take(bytes) {
      taken += bytes;
      if (taken > maxScratchBytes) throw imageTooLarge(`${maxScratchBytes} bytes of disk space`);
    },
    give(bytes) {
      taken -= bytes;
    },
  };
}
