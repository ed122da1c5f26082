import { parentPort } from 'node:worker_threads';
import { Fault } from '../../../foundation/fault.ts';
import { lowerPriority } from '../../../foundation/threads.ts';
import { LargeArchive } from '../../archives/archive-checks.ts';
import type { AnyOrder, LayerResponse, MadeLayer, OrderMessage } from './layer-threads.ts';
import { type PutPiece, sendPieces } from './piece-ring.ts';

/**
 * Answers the orders of this thread, one after the other. Its file imports `foundation/gated-zlib.ts` first.
 *
 * @param make makes a layer, whose pieces it puts; `written` receives how far it is, as in `PackageProgress`
 */
export function serveLayers<O extends AnyOrder>(
  make: (order: O, put: PutPiece, written?: Float64Array) => Promise<MadeLayer>,
): void {
  lowerPriority();
  parentPort?.on('message', async ({ order, pieces, written }: OrderMessage<O>) => {
    const put = sendPieces(pieces, piece => respond({ piece }));
    try {
      respond({ made: await make(order, put, written) });
    } catch (error) {
      if (error instanceof LargeArchive) respond({ isLarge: true });
      else if (error instanceof Fault) {
        const { kind, phase, message } = error;
        respond({ fault: { kind, phase, message } });
      } else respond({ error });
    }
  });
}

function respond(message: LayerResponse): void {
  parentPort?.postMessage(message);
}
