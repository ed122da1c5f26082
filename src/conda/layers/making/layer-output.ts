import { createHash } from 'node:crypto';
import { tarEnd } from '../../../archives/tar-writer.ts';
import type { Digest } from '../../../oci/digest.ts';
import { createGzipWriter, type GzipWriter } from '../gzip/gzip-writer.ts';
import type { PutPiece } from './piece-ring.ts';

/** Packs the tar entries of a package as a layer. */
export class LayerOutput implements Disposable {
  readonly #gzip: GzipWriter;
  readonly #hash = createHash('sha256');
  #bytes = 0;

  constructor(put: PutPiece) {
    this.#gzip = createGzipWriter(put);
  }

  /** Bytes of the tar file so far. */
  get tarBytes(): number {
    return this.#bytes;
  }

  write(bytes: Uint8Array): void {
    this.#bytes += bytes.length;
    this.#hash.update(bytes);
    this.#gzip.write(bytes);
  }

  /** Ends the layer; returns the digest of its tar file. */
  end(): Digest {
    this.#gzip.end();
    // The end of the tar file is a separate gzip member, equal in all layers: `layerEnd`.
    this.write(tarEnd);
    this.#gzip.end();
    return `sha256:${this.#hash.digest('hex')}` as Digest;
  }

  [Symbol.dispose](): void {
    this.#gzip[Symbol.dispose]();
  }
}
