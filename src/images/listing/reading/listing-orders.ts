import type { FaultKind, Phase } from '../../../foundation/fault.ts';
import type { Digest } from '../../../oci/digest.ts';
import type { ListingLimits } from '../listing-limits.ts';

/** What a thread computes. */
export type ListingOrder =
  /** The entries of a layer, whose compressed bytes follow as messages. */
  | {
      readonly kind: 'entries';
      readonly digest: Digest;
      readonly size: number;
      readonly limits: ListingLimits;
    }
  /** The tree of the last of these layers, compared with the others. */
  | { readonly kind: 'tree'; readonly layers: readonly string[]; readonly maxEntries: number }
  /** What the image of these layers stores in vain. */
  | { readonly kind: 'waste'; readonly layers: readonly string[] };

/** Bytes of a layer, or their end. */
export type ListingPiece = { readonly piece: Uint8Array<ArrayBuffer> } | { readonly isEnd: true };

export type ListingResponse =
  /** A piece was read: the next one may follow. */
  | { readonly taken: true }
  /** The file to keep. */
  | { readonly file: Uint8Array<ArrayBuffer> }
  | {
      readonly fault: {
        readonly kind: FaultKind;
        readonly phase: Phase | undefined;
        readonly message: string;
      };
    }
  /** A listing that the order reads is damaged or absent. */
  | { readonly isDamaged: true }
  | { readonly error: unknown };

/** Pieces on their way to a thread. */
export const mostPiecesAhead = 8;
