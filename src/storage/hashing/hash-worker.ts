import { createHash, type Hash } from 'node:crypto';
import { parentPort } from 'node:worker_threads';

/** An order to the hash thread. Orders of one hash come in the order of its bytes. */
export type HashOrder =
  | { readonly id: number; readonly open: 'sha256' | 'sha512' }
  | { readonly id: number; readonly bytes: Uint8Array }
  | { readonly id: number; readonly close: 'digest' | 'abort' };

/** One response for each order with bytes (the bytes are read), and one with the hex digest. */
export interface HashResponse {
  readonly id: number;
  readonly hex?: string;
}

const hashes = new Map<number, Hash>();

parentPort?.on('message', (order: HashOrder) => {
  const { id } = order;
  if ('open' in order) {
    hashes.set(id, createHash(order.open));
  } else if ('bytes' in order) {
    hashes.get(id)?.update(order.bytes);
    parentPort?.postMessage({ id } satisfies HashResponse);
  } else {
    const hash = hashes.get(id);
    hashes.delete(id);
    if (order.close === 'digest' && hash !== undefined) {
      parentPort?.postMessage({ id, hex: hash.digest('hex') } satisfies HashResponse);
    }
  }
});
