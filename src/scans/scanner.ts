import type { FoundInImage } from './found-in-image.ts';

/** One image for one platform, where the scanner reads it. */
export interface ScannedImage {
  /** Origin of the registry. */
  readonly registry: string;
  readonly repository: string;
  readonly digest: string;
  readonly mediaType: string;
}

export interface Scanner {
  /** Returns name and version of the scanner, and what its database is of. */
  describe(signal: AbortSignal): Promise<{ readonly name: string; readonly database: string }>;
  /** Adds what is in an image, and what is wrong with it. Rejects with a `Fault`, or with the reason of the signal. */
  scan(image: ScannedImage, found: FoundInImage, signal: AbortSignal): Promise<void>;
  close(): Promise<void>;
}
