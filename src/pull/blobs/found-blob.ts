import type { ByteSource } from '../../storage/content/byte-source.ts';

/** Which bytes are wanted, both ends included; the whole blob when absent. */
export interface ByteRange {
  readonly start: number;
  readonly end: number;
}

/** Where a blob's bytes come from. `size` is that of the whole blob. */
export type FoundBlob =
  | { readonly kind: 'redirect'; readonly location: URL }
  | {
      readonly kind: 'stream';
      readonly size: number;
      /** The wanted part of it. */
      readonly source: ByteSource;
      /** What comes from the content store or through it was verified on its way in, and need not be again. */
      readonly isVerified: boolean;
    };

/** Makes a range from the size of the blob, which a client may leave open; undefined for the whole. */
export type RangeOf = (size: number) => ByteRange | undefined;
