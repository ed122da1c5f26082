import type { ByteSource } from '../../storage/content/byte-source.ts';

/** The requested bytes, both ends included; the whole blob if absent. */
export interface ByteRange {
  readonly start: number;
  readonly end: number;
}

/** Source of a blob's bytes. `size` is the size of the whole blob. */
export type FoundBlob =
  | { readonly kind: 'redirect'; readonly location: URL }
  | {
      readonly kind: 'stream';
      readonly size: number;
      /** Source of the requested part. */
      readonly source: ByteSource;
      /** `stored`: from the content store or through it. `relayed`: from the registry as they arrive. */
      readonly delivery: 'stored' | 'relayed';
      /** True for bytes that need no check: stored ones, and those of a blob that was verified recently. */
      readonly isVerified: boolean;
      /** Called when the digest of the whole blob has been verified. */
      readonly onVerified?: () => void;
    };

/** Computes a range from the size of the blob, because a client may omit the end; undefined for the whole blob. */
export type RangeOf = (size: number) => ByteRange | undefined;
