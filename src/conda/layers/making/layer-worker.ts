import '../../../foundation/gated-zlib.ts';
import { parentPort } from 'node:worker_threads';
import { Fault } from '../../../foundation/fault.ts';
import { LargeArchive } from '../../archives/archive-checks.ts';
import type { LayerOrder, LayerResponse, MadeLayer, OrderMessage } from './layer-threads.ts';
import { joinLayers, LayerOutput, packPackage } from './pack-layers.ts';
import { type PutPiece, sendPieces } from './piece-ring.ts';

async function make(order: LayerOrder, put: PutPiece, written?: Float64Array): Promise<MadeLayer> {
  switch (order.kind) {
    case 'package':
      return packPackage(order, put, written);
    case 'shared':
      return joinLayers(order.layers, put);
    case 'tar': {
      using output = new LayerOutput(put);
      output.write(order.tar);
      const tarDigest = output.end();
      return { tarDigest, tarBytes: output.tarBytes };
    }
  }
}

function respond(message: LayerResponse): void {
  parentPort?.postMessage(message);
}

parentPort?.on('message', async ({ order, pieces, written }: OrderMessage) => {
  try {
    respond({
      made: await make(
        order,
        sendPieces(pieces, piece => respond({ piece })),
        written,
      ),
    });
  } catch (error) {
    if (error instanceof LargeArchive) respond({ isLarge: true });
    else if (error instanceof Fault) {
      const { kind, phase, message } = error;
      respond({ fault: { kind, phase, message } });
    } else respond({ error });
  }
});
