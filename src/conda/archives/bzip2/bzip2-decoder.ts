import { readFileSync } from 'node:fs';
import { ArchiveProblem } from '../archive-problem.ts';

/** What is used of it here: the types of Node do not have it. */
declare const WebAssembly: {
  readonly Module: new (bytes: Uint8Array) => object;
  readonly Instance: new (module: object) => { readonly exports: unknown };
};

/** The functions of `bunzip.c`. */
interface Bunzip {
  readonly memory: { readonly buffer: ArrayBuffer };
  input(): number;
  output(): number;
  bufferBytes(): number;
  open(): number;
  fill(bytes: number): void;
  decompress(): number;
  left(): number;
  written(): number;
}

const streamEnd = 4;

let compiled: object | undefined;

/** Decompresses bzip2 as its bytes arrive, with about 5 MB of memory: about 40 MB a second on the thread that calls it. */
export class Bzip2Decoder {
  readonly #bunzip: Bunzip;
  #isOpen = false;
  #isEmpty = true;

  constructor() {
    compiled ??= new WebAssembly.Module(readFileSync(new URL('./bunzip.wasm', import.meta.url)));
    this.#bunzip = new WebAssembly.Instance(compiled).exports as Bunzip;
  }

  /** Yields what the next bytes decompress to: views that are valid until the next one. Throws `ArchiveProblem`. */
  *write(bytes: Uint8Array): Generator<Buffer> {
    const most = this.#bunzip.bufferBytes();
    for (let at = 0; at < bytes.length; at += most) {
      const piece = bytes.subarray(at, at + most);
      new Uint8Array(this.#bunzip.memory.buffer).set(piece, this.#bunzip.input());
      this.#bunzip.fill(piece.length);
      yield* this.#drain(most);
    }
  }

  /** Ends the input. Throws `ArchiveProblem` if it is incomplete. */
  end(): void {
    if (this.#isOpen || this.#isEmpty) throw new ArchiveProblem('ends in the middle of bzip2 data');
  }

  *#drain(most: number): Generator<Buffer> {
    const bunzip = this.#bunzip;
    for (let written = 0; bunzip.left() > 0 || written === most; ) {
      if (!this.#isOpen) {
        // Streams follow each other without anything between them.
        if (bunzip.left() === 0) return;
        if (bunzip.open() !== 0) throw new Error('there is no memory to decompress bzip2');
        this.#isOpen = true;
        this.#isEmpty = false;
      }
      const code = bunzip.decompress();
      if (code < 0) throw new ArchiveProblem('has damaged bzip2 data');
      this.#isOpen = code !== streamEnd;
      written = bunzip.written();
      if (written > 0) yield Buffer.from(bunzip.memory.buffer, bunzip.output(), written);
    }
  }
}
