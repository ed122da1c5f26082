/** Limits of listings. A layer or an image that exceeds one is not listed, with a sentence that says so. */
export interface ListingLimits {
  /** Compressed bytes of a layer, and of all layers of an image that are compared. */
  readonly maxBytes: number;
  /** Bytes that a layer may unpack to. */
  readonly maxUnpackedBytes: number;
  /** Files, directories and links of a layer, and of its comparison with the layers below. */
  readonly maxEntries: number;
  /** Bytes of all paths and link targets of a layer. */
  readonly maxNameBytes: number;
  /** Time to fetch and read one layer (ms). */
  readonly maxMs: number;
  /** Time that a slow layer has while others wait (ms); a whole image has six times as much. */
  readonly awaitedMs: number;
}

export const usualListingLimits: ListingLimits = {
  maxBytes: 8 * 1024 ** 3,
  maxUnpackedBytes: 32 * 1024 ** 3,
  maxEntries: 300_000,
  maxNameBytes: 64 * 1024 ** 2,
  maxMs: 15 * 60_000,
  awaitedMs: 10_000,
};

/** No more layers of an image are compared. */
export const mostComparedLayers = 256;
