import { parentPort } from 'node:worker_threads';
import { Fault } from '../../../foundation/fault.ts';
import { joinLayers } from './join-layers.ts';
import {
  type LayerAnswer,
  type LayerOrder,
  type MadeLayer,
  mostAhead,
  type OrderMessage,
} from './layer-orders.ts';
import { LayerOutput } from './layer-output.ts';
import { packPackage } from './pack-package.ts';

type Put = (piece: Uint8Array<ArrayBuffer>) => void;

async function make(order: LayerOrder, put: Put, written?: Float64Array): Promise<MadeLayer> {
  switch (order.kind) {
    case 'package':
      return packPackage(order, put, written);
    case 'shared':
      return joinLayers(order.layers, put);
    case 'tar': {
      const output = new LayerOutput(put);
      output.write(order.tar);
      const tarDigest = output.end();
      return { tarDigest, tarBytes: output.tarBytes };
    }
  }
}

function answer(message: LayerAnswer, moved: readonly ArrayBuffer[] = []): void {
  parentPort?.postMessage(message, [...moved]);
}

/** Returns a function that sends pieces. It blocks this thread while it is too far ahead of the main thread. */
function sender(taken: Int32Array): Put {
  let sent = 0;
  return piece => {
    answer({ piece }, [piece.buffer]);
    sent += 1;
    for (;;) {
      const now = Atomics.load(taken, 0);
      if (sent - now <= mostAhead) return;
      Atomics.wait(taken, 0, now);
    }
  };
}

parentPort?.on('message', async ({ order, taken, written }: OrderMessage) => {
  try {
    answer({ made: await make(order, sender(taken), written) });
  } catch (error) {
    if (error instanceof Fault) {
      const { kind, phase, message } = error;
      answer({ fault: { kind, phase, message } });
    } else answer({ error });
  }
});
