import type { LayeredPackage } from '../layers/package-layers.ts';

/** The solution of an image for one platform. */
export interface PlatformSolution {
  /** `linux-64` or `linux-aarch64`. */
  readonly subdir: string;
  /** Sorted by name. */
  readonly packages: readonly LayeredPackage[];
}

/** A solution with what a document says about it. */
export interface DocumentedSolution {
  readonly platforms: readonly PlatformSolution[];
  /** Base URLs of the channels in order of priority. */
  readonly channels: readonly string[];
  readonly requested: readonly string[];
  /** Name of the image with its digest: identifiers of documents are derived from it and the packages. */
  readonly image: string;
}
