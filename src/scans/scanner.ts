import type { FoundInImage } from './found-in-image.ts';

/** One image for one platform, where the scanner reads it. */
export interface ScannedImage {
  /** Origin of the registry. */
  readonly registry: string;
  readonly repository: string;
  readonly digest: string;
  readonly mediaType: string;
}

/** A package that a bill of materials names. */
export interface ScannedComponent {
  readonly name: string;
  readonly version: string;
  /** Package URL. Source: ECMA-427. */
  readonly purl: string;
}

export interface Scanner {
  /** Returns name and version of the scanner, and what its database is of. */
  describe(signal: AbortSignal): Promise<{ readonly name: string; readonly database: string }>;
  /** Adds what is in an image, and what is wrong with it. Rejects with a `Fault`, or with the reason of the signal. */
  scan(image: ScannedImage, found: FoundInImage, signal: AbortSignal): Promise<void>;
  /** Adds what is wrong with components, as `scan` does for an image. Absent for a scanner that reads images only. */
  readonly scanComponents?: (
    components: readonly ScannedComponent[],
    found: FoundInImage,
    signal: AbortSignal,
  ) => Promise<void>;
  close(): Promise<void>;
}
