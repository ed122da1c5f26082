import '../../../foundation/gated-zlib.ts';
import { parentPort } from 'node:worker_threads';
import { Fault } from '../../../foundation/fault.ts';
import { LargeArchive } from '../../archives/archive-problem.ts';
import { joinLayers } from './join-layers.ts';
import {
  type LayerAnswer,
  type LayerOrder,
  type MadeLayer,
  mostAhead,
  type OrderMessage,
  type PieceRing,
  pieceIn,
} from './layer-orders.ts';
import { LayerOutput, type PutPiece } from './layer-output.ts';
import { packPackage } from './pack-package.ts';

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

function answer(message: LayerAnswer): void {
  parentPort?.postMessage(message);
}

/** Returns a function that sends pieces. It blocks this thread while the ring has no room. */
function sender(pieces: PieceRing): PutPiece {
  let sent = 0;
  return piece => {
    for (;;) {
      const now = Atomics.load(pieces.taken, 0);
      if (sent - now < mostAhead) break;
      Atomics.wait(pieces.taken, 0, now);
    }
    pieceIn(pieces, sent, piece.length).set(piece);
    sent += 1;
    answer({ piece: piece.length });
  };
}

parentPort?.on('message', async ({ order, pieces, written }: OrderMessage) => {
  try {
    answer({ made: await make(order, sender(pieces), written) });
  } catch (error) {
    if (error instanceof LargeArchive) answer({ isLarge: true });
    else if (error instanceof Fault) {
      const { kind, phase, message } = error;
      answer({ fault: { kind, phase, message } });
    } else answer({ error });
  }
});
