import { mostMemberBytes } from '../gzip/gzip-members.ts';
import type { PutPiece } from '../making/piece-ring.ts';

/** Gathers short pieces: each file is one, and the main thread would take 100,000 of them one by one. */
export class PieceBuffer {
  readonly #bytes = Buffer.allocUnsafeSlow(mostMemberBytes);
  readonly #put: PutPiece;
  #size = 0;

  constructor(put: PutPiece) {
    this.#put = put;
  }

  add(piece: Uint8Array): void {
    if (this.#size + piece.length > this.#bytes.length) this.flush();
    this.#bytes.set(piece, this.#size);
    this.#size += piece.length;
  }

  flush(): void {
    if (this.#size > 0) this.#put(this.#bytes.subarray(0, this.#size));
    this.#size = 0;
  }
}
