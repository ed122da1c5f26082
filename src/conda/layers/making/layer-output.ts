import { createHash } from 'node:crypto';
import type { Digest } from '../../../oci/digest.ts';
import { createGzipWriter, type GzipWriter } from '../gzip/gzip-writer.ts';
import { layerEnd, tarEnd } from '../gzip/layer-end.ts';

/** Packs the tar entries of a package as a layer. */
export class LayerOutput {
  readonly #put: (piece: Uint8Array<ArrayBuffer>) => void;
  readonly #gzip: GzipWriter = createGzipWriter();
  readonly #hash = createHash('sha256');
  #bytes = 0;

  /** @param put receives the layer piece by piece */
  constructor(put: (piece: Uint8Array<ArrayBuffer>) => void) {
    this.#put = put;
  }

  /** Bytes of the tar file so far. */
  get tarBytes(): number {
    return this.#bytes;
  }

  write(bytes: Uint8Array): void {
    this.#bytes += bytes.length;
    this.#hash.update(bytes);
    for (const member of this.#gzip.write(bytes)) this.#put(member);
  }

  /** Ends the layer; returns the digest of its tar file. */
  end(): Digest {
    const last = this.#gzip.end();
    if (last) this.#put(last);
    this.#bytes += tarEnd.length;
    this.#hash.update(tarEnd);
    this.#put(ownCopy(layerEnd()));
    return `sha256:${this.#hash.digest('hex')}` as Digest;
  }
}

/** Returns a copy that can be given to another thread: a buffer may share its memory with others. */
export function ownCopy(bytes: Uint8Array): Uint8Array<ArrayBuffer> {
  return new Uint8Array(bytes);
}
