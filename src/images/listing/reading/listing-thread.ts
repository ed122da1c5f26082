import { Fault } from '../../../foundation/fault.ts';
import { isOutOfMemory, Thread } from '../../../foundation/threads.ts';
import type { ByteSource } from '../../../storage/content/byte-source.ts';
import { DamagedListing } from '../records/byte-codec.ts';
import {
  type ListingOrder,
  type ListingPiece,
  type ListingResponse,
  mostPiecesAhead,
} from './listing-orders.ts';

// The names of all files of a layer, and little else.
const heapMb = 256;
const youngHeapMb = 8;

export interface ListingOptions {
  readonly signal: AbortSignal;
  /** The bytes of the layer, for an order that reads them. */
  readonly source?: ByteSource;
  /** Called with the number of bytes that were sent to the thread. */
  readonly onBytes?: (bytes: number) => void;
}

/**
 * Runs an order on a thread that ends with it, and returns the file that it makes. Throws a {@link Fault},
 * {@link DamagedListing}, the error of the source, and the reason of the signal.
 */
export async function runListing(
  order: ListingOrder,
  { signal, source, onBytes = () => {} }: ListingOptions,
): Promise<Uint8Array> {
  const thread = new Thread<ListingResponse>(new URL('./listing-worker.ts', import.meta.url), {
    workerData: order,
    heapMb,
    youngHeapMb,
    ended: 'the thread that lists a layer ended',
  });
  let ahead = 0;
  let wake = () => {};
  const send = async (source: ByteSource): Promise<void> => {
    let sent = 0;
    for (let chunk = await source.read(); chunk !== null; chunk = await source.read()) {
      const piece = new Uint8Array(chunk.bytes);
      chunk.release();
      sent += piece.length;
      onBytes(sent);
      ahead += 1;
      thread.post({ piece } satisfies ListingPiece, [piece.buffer]);
      while (ahead >= mostPiecesAhead) {
        await new Promise<void>(resume => {
          wake = resume;
        });
      }
    }
    thread.post({ isEnd: true } satisfies ListingPiece);
  };

  try {
    if (source) send(source).catch(error => thread.end(error));
    for (;;) {
      const response = await thread.next(signal);
      if ('file' in response) return response.file;
      if (!('taken' in response)) throw errorOf(response);
      ahead -= 1;
      wake();
    }
  } catch (error) {
    throw isOutOfMemory(error) ? tooLarge(error) : error;
  } finally {
    source?.destroy(signal.reason);
    await thread.end();
    // Ends a transfer that waits for the thread.
    ahead = 0;
    wake();
  }
}

function errorOf(response: Exclude<ListingResponse, { taken: true } | { file: unknown }>): unknown {
  if ('isDamaged' in response) return new DamagedListing();
  if ('error' in response) return response.error;
  const { kind, phase, message } = response.fault;
  return new Fault(kind, message, phase === undefined ? {} : { phase });
}

function tooLarge(cause: unknown): Fault {
  return new Fault(
    'too-large',
    `The layer has more or longer names of files than fit into the ${heapMb} MiB of memory for its list: Sluice does not list such layers`,
    { phase: 'layer', cause },
  );
}
