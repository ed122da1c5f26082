import '../../../foundation/gated-zlib.ts';
import { createReadStream } from 'node:fs';
import { Readable } from 'node:stream';
import { parentPort } from 'node:worker_threads';
import { TarError } from '../../../archives/index.ts';
import { sendPieces } from '../../../conda/layers/gzip/index.ts';
import type { DatingOrder, DatingResponse, SentLayer } from './dating-thread.ts';
import { createLayerDater, type PackedLayer } from './redate-layer.ts';

const chunkBytes = 256 * 1024;
const dater = createLayerDater();

function layerOf({ from, ...layer }: SentLayer): PackedLayer {
  const open = () =>
    typeof from === 'string'
      ? createReadStream(from, { highWaterMark: chunkBytes })
      : Readable.from([Buffer.from(from)]);
  return { ...layer, open };
}

function respond(message: DatingResponse): void {
  parentPort?.postMessage(message);
}

function work(order: DatingOrder): Promise<unknown> {
  switch (order.kind) {
    case 'read':
      return dater.read(layerOf(order.layer));
    case 'write': {
      const put = sendPieces(order.pieces, piece => respond({ piece }));
      return dater.write(layerOf(order.layer), order.form, put);
    }
    default:
      return dater[order.kind]();
  }
}

parentPort?.on('message', async (order: DatingOrder) => {
  try {
    respond({ result: await work(order) });
  } catch (error) {
    respond(error instanceof TarError ? { tarError: error.message } : { error });
  }
});
