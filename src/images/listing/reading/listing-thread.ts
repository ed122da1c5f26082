import { Fault } from '../../../foundation/fault.ts';
import { endThread, startThread } from '../../../foundation/work.ts';
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

export interface ThreadOptions {
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
  { signal, source, onBytes = () => {} }: ThreadOptions,
): Promise<Uint8Array> {
  const { promise, resolve, reject } = Promise.withResolvers<Uint8Array>();
  // Nobody waits for it while the thread starts.
  promise.catch(() => {});
  const stop = () => {
    source?.destroy(signal.reason);
    reject(signal.reason);
  };
  signal.addEventListener('abort', stop, { once: true });
  if (signal.aborted) stop();
  const worker = startThread(new URL('./listing-worker.ts', import.meta.url), {
    workerData: order,
    resourceLimits: { maxOldGenerationSizeMb: heapMb, maxYoungGenerationSizeMb: youngHeapMb },
  });
  let ahead = 0;
  let wake = () => {};
  worker.on('message', (response: ListingResponse) => {
    if ('taken' in response) {
      ahead -= 1;
      wake();
    } else if ('file' in response) resolve(response.file);
    else reject(errorOf(response));
  });
  worker.on('error', error => reject(lostThread(error)));
  worker.on('exit', () => reject(lostThread(undefined)));

  const send = async (source: ByteSource): Promise<void> => {
    let sent = 0;
    for (let chunk = await source.read(); chunk !== null; chunk = await source.read()) {
      const piece = new Uint8Array(chunk.bytes);
      chunk.release();
      sent += piece.length;
      onBytes(sent);
      ahead += 1;
      worker.postMessage({ piece } satisfies ListingPiece, [piece.buffer]);
      while (ahead >= mostPiecesAhead) {
        await new Promise<void>(resume => {
          wake = resume;
        });
      }
    }
    worker.postMessage({ isEnd: true } satisfies ListingPiece);
  };

  try {
    if (source) send(source).catch(reject);
    return await promise;
  } finally {
    signal.removeEventListener('abort', stop);
    source?.destroy();
    await endThread(worker);
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

function lostThread(cause: unknown): unknown {
  const isOutOfMemory =
    cause instanceof Error && 'code' in cause && cause.code === 'ERR_WORKER_OUT_OF_MEMORY';
  if (!isOutOfMemory) return new Error('the thread that lists a layer ended', { cause });
  return new Fault(
    'too-large',
    `The layer has more or longer names of files than fit into the ${heapMb} MiB of memory for its list: Sluice does not list such layers`,
    { phase: 'layer', cause },
  );
}
