import { createHash } from 'node:crypto';
import { closeSync, openSync, readSync } from 'node:fs';
import { createGunzip } from 'node:zlib';
import type { Digest } from '../../../oci/digest.ts';
import { layerEnd } from '../gzip/layer-end.ts';
import type { MadeLayer, SharedOrder } from './layer-orders.ts';
import { ownCopy } from './layer-output.ts';

const pieceBytes = 512 * 1024;

/**
 * Puts layers together as one: each without its end, then one end. Decompresses them for the digest of the tar file
 * only. Blocks the thread while it reads.
 *
 * @param put receives the layer piece by piece
 */
export async function joinLayers(
  layers: SharedOrder['layers'],
  put: (piece: Uint8Array<ArrayBuffer>) => void,
): Promise<MadeLayer> {
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
      // Before the piece is given away.
      await unpack(piece);
      put(piece);
    }
  }
  await unpack(end);
  put(ownCopy(end));
  gunzip.end();
  await ended.promise;
  return { tarDigest: `sha256:${hash.digest('hex')}` as Digest, tarBytes };
}

/** Returns the first bytes of a file in pieces, each with its own memory. */
function* readPieces(path: string, bytes: number): Generator<Uint8Array<ArrayBuffer>> {
  const file = openSync(path, 'r');
  try {
    for (let position = 0; position < bytes; ) {
      const piece = new Uint8Array(Math.min(pieceBytes, bytes - position));
      const read = readSync(file, piece, 0, piece.length, position);
      if (read === 0) throw new Error('a kept layer is shorter than its row says');
      position += read;
      yield read === piece.length ? piece : piece.slice(0, read);
    }
  } finally {
    closeSync(file);
  }
}
