import { readFileSync } from 'node:fs';
import { ArchiveProblem } from '../archive-checks.ts';

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
/** The last instance of this thread: each stream would leave its memory for the garbage collector. */
let spare: Bunzip | undefined;

/** Decompresses bzip2 as its bytes arrive, with about 5 MB of memory: about 40 MB a second on the thread that calls it. */
export class Bzip2Decoder implements Disposable {
  readonly #bunzip: Bunzip;
  #isOpen = false;
  #isEmpty = true;

  constructor() {
    compiled ??= new WebAssembly.Module(readFileSync(new URL('./bunzip.wasm', import.meta.url)));
    this.#bunzip = spare ?? (new WebAssembly.Instance(compiled).exports as Bunzip);
    spare = undefined;
  }

  /** Where to put the next bytes for {@link decompress}: valid until then. */
  get input(): Buffer {
    const { memory, input, bufferBytes } = this.#bunzip;
    return Buffer.from(memory.buffer, input(), bufferBytes());
  }

  /**
   * Yields what the first bytes of the input decompress to: views that are valid until the next one. Throws
   * `ArchiveProblem`.
   */
  *decompress(bytes: number): Generator<Buffer> {
    const bunzip = this.#bunzip;
    const most = bunzip.bufferBytes();
    bunzip.fill(bytes);
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

  /** Ends the input. Throws `ArchiveProblem` if it is incomplete. */
  end(): void {
    if (this.#isOpen || this.#isEmpty) throw new ArchiveProblem('ends in the middle of bzip2 data');
  }

  [Symbol.dispose](): void {
    // One that has failed may be in any state.
    if (!this.#isOpen) spare = this.#bunzip;
  }
}
