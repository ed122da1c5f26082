import { constants, zstdCompressSync } from 'node:zlib';
import { memberBytes } from '../gzip/gzip-members.ts';
import type { PutPiece } from '../making/piece-ring.ts';

/** zstd of this program: another version may write other bytes. */
export const zstdVersion = process.versions.zstd ?? '';

/** The level of `zstd` and of BuildKit. */
export const usualZstdLevel = 3;

/** Bytes of the content of a frame. The last one is shorter. */
const frameBytes = 4 * 1024 * 1024;

/**
 * Compresses bytes with zstd, a frame for each 4 MiB, which decompressors read as one content. The same bytes give the same
 * result in each version of zstd. Blocks the thread. Source: RFC 8878, section 3.
 */
export class ZstdWriter {
  readonly #put: PutPiece;
  readonly #level: number;
  readonly #frame = Buffer.allocUnsafeSlow(frameBytes);
  #size = 0;
  #isEmpty = true;

  /** @param put receives the file in pieces of at most `memberBytes` */
  constructor(put: PutPiece, level: number) {
    this.#put = put;
    this.#level = level;
  }

  write(bytes: Uint8Array): void {
    for (let at = 0; at < bytes.length; ) {
      const part = bytes.subarray(at, at + frameBytes - this.#size);
      this.#frame.set(part, this.#size);
      this.#size += part.length;
      at += part.length;
      if (this.#size === frameBytes) this.#flush();
    }
  }

  /** Writes the last frame. A file of no bytes has one, too. */
  end(): void {
    if (this.#size > 0 || this.#isEmpty) this.#flush();
  }

  #flush(): void {
    const params = {
      [constants.ZSTD_c_compressionLevel]: this.#level,
      [constants.ZSTD_c_checksumFlag]: 1,
    };
    const content = this.#frame.subarray(0, this.#size);
    const packed = zstdCompressSync(content, { params });
    for (let at = 0; at < packed.length; at += memberBytes) {
      this.#put(packed.subarray(at, at + memberBytes));
    }
    this.#size = 0;
    this.#isEmpty = false;
  }
}
