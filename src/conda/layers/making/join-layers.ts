import { createHash } from 'node:crypto';
import { closeSync, openSync, readSync } from 'node:fs';
import { createGunzip } from 'node:zlib';
import type { Digest } from '../../../oci/digest.ts';
import { layerEnd } from '../gzip/layer-end.ts';
import type { MadeLayer, SharedOrder } from './layer-orders.ts';
import type { PutPiece } from './layer-output.ts';

const pieceBytes = 512 * 1024;

/**
 * Puts layers together as one: each without its end, then one end. Decompresses them for the digest of the tar file
 * only. Blocks the thread while it reads.
 */
export async function joinLayers(layers: SharedOrder['layers'], put: PutPiece): Promise<MadeLayer> {
  const gunzip = createGunzip({ chunkSize: pieceBytes });
  const hash = createHash('sha256');
  let tarBytes = 0;
  gunzip.on('data', (bytes: Buffer) => {
    tarBytes += bytes.length;
    hash.update(bytes);
  });
  const ended = Promise.withResolvers<void>();
  gunzip.on('end', ended.resolve).on('error', ended.reject);
  const unpack = (piece: Uint8Array) =>
    Promise.race([new Promise<void>(done => gunzip.write(piece, () => done())), ended.promise]);

  const end = layerEnd();
  for (const { path, size } of layers) {
    for (const piece of readPieces(path, size - end.length)) {
      put(piece);
      await unpack(piece);
    }
  }
  await unpack(end);
  put(end);
  gunzip.end();
  await ended.promise;
  return { tarDigest: `sha256:${hash.digest('hex')}` as Digest, tarBytes };
}

/** Yields the first bytes of a file in pieces: views that are valid until the next one. */
function* readPieces(path: string, bytes: number): Generator<Buffer> {
  const file = openSync(path, 'r');
  const buffer = Buffer.allocUnsafeSlow(Math.min(pieceBytes, bytes));
  try {
    for (let position = 0; position < bytes; ) {
      const most = Math.min(buffer.length, bytes - position);
      const read = readSync(file, buffer, 0, most, position);
      if (read === 0) throw new Error('a kept layer is shorter than its row says');
      position += read;
      yield buffer.subarray(0, read);
    }
  } finally {
    closeSync(file);
  }
}
