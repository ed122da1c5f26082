import { buffer } from 'node:stream/consumers';
import { TarError } from '../../../archives/index.ts';
import {
  inRoom,
  openRing,
  type PieceRing,
  takePieces,
  threadNeeds,
} from '../../../conda/layers/gzip/index.ts';
import { Thread } from '../../../foundation/threads.ts';
import type { LayerDater, LayerForm, PackedLayer } from './redate-layer.ts';

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

// The bytes pass outside the heap; the paths of a million Python sources are in it.
const heapMb = 256;
// The young generation is collected often, and with it the buffers of the decompressor.
const youngHeapMb = 2;

/**
 * Dates the layers of one image on a thread. What passes through it is garbage soon, and each collection takes ten times
 * longer in the large heap of the main thread: as long as the compression.
 */
export function onDatingThread<T>(
  work: (dater: LayerDater) => Promise<T>,
  signal: AbortSignal,
): Promise<T> {
  return inRoom(threadNeeds.layer, async () => {
    signal.throwIfAborted();
    await using thread = new Thread<DatingResponse>(
      new URL('./dating-worker.ts', import.meta.url),
      { heapMb, youngHeapMb, ended: 'the thread that dates layers ended' },
    );
    return await work(daterOn(thread, signal));
  });
}

function daterOn(thread: Thread<DatingResponse>, signal: AbortSignal): LayerDater {
  const ask = async <R>(
    order: DatingOrder,
    receive: (size: number) => Promise<void> = async () => {},
  ): Promise<R> => {
    thread.ask(order);
    for (;;) {
      const response = await thread.next(signal);
      if ('piece' in response) await receive(response.piece);
      else if ('result' in response) return response.result as R;
      else throw 'tarError' in response ? new TarError(response.tarError) : response.error;
    }
  };

  return {
    compiled: () => ask({ kind: 'compiled' }),
    restart: () => ask({ kind: 'restart' }),
    read: async layer => ask({ kind: 'read', layer: await sentLayer(layer) }),
    async write(layer, form, put) {
      const pieces = openRing();
      const take = async (piece: Uint8Array) => put(piece);
      const order: DatingOrder = { kind: 'write', layer: await sentLayer(layer), form, pieces };
      return ask(order, takePieces(pieces, take));
    },
  };
}

async function sentLayer({ size, packing, path, open }: PackedLayer): Promise<SentLayer> {
  // Without a file, it is small.
  return { size, packing, from: path ?? (await buffer(open())) };
}
