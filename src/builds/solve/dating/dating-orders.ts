import type { PieceRing } from '../../../conda/layers/gzip/index.ts';
import type { LayerForm, PackedLayer } from './redate-layer.ts';

/** Work for a thread that dates the layers of one image: calls of a `LayerDater`, one at a time. */
export type DatingOrder =
  | { readonly kind: 'compiled' | 'restart' }
  | { readonly kind: 'read'; readonly layer: SentLayer }
  | {
      readonly kind: 'write';
      readonly layer: SentLayer;
      readonly form: LayerForm;
      readonly pieces: PieceRing;
    };

/** A layer on its way to the thread. */
export interface SentLayer extends Pick<PackedLayer, 'size' | 'packing'> {
  /** The file with it, or its bytes. */
  readonly from: string | Uint8Array;
}

/** What the thread answers: any number of pieces, then one of the others. */
export type DatingResponse =
  /** Bytes of the next piece in the ring. */
  | { readonly piece: number }
  | { readonly result: unknown }
  /** The layer is not a tar file that a builder writes. */
  | { readonly tarError: string }
  | { readonly error: unknown };
