import { createHash } from 'node:crypto';
import { tarEnd } from '../../../archives/tar-writer.ts';
import type { Digest } from '../../../oci/digest.ts';
import { createGzipWriter, type GzipWriter } from '../gzip/gzip-members.ts';
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

let endMember: Buffer | undefined;

/**
 * Returns the last gzip member of every layer of packages: the end of the tar file, and nothing else. Without it, a layer
 * is the beginning of a longer one.
 */
export function layerEnd(): Buffer {
  if (endMember === undefined) {
    using gzip = createGzipWriter(bytes => {
      endMember = Buffer.from(bytes);
    });
    gzip.write(tarEnd);
    gzip.end();
  }
  return endMember as unknown as Buffer;
}
