import { readFileSync } from 'node:fs';
import { ArchiveProblem } from '../archive-problem.ts';

/** What is used of it here: the types of Node do not have it. */
declare const WebAssembly: {
  readonly Module: new (bytes: Uint8Array) => object;
  readonly Instance: new (module: object) => { readonly exports: unknown };
};

/** The functions of `unzstd.c`. */
interface Unzstd {
  readonly memory: { readonly buffer: ArrayBuffer };
  input(): number;
  inputBytes(): number;
  output(): number;
  open(windowLog: number): number;
  fill(bytes: number): void;
  decompress(): number;
  left(): number;
  written(): number;
}

const outOfMemory = -64;
const windowTooLarge = -16;
/** Memory that is kept for the next stream: windows of up to 8 MiB, which level 19 has. */
const keptBytes = 12 * 1024 * 1024;

let compiled: object | undefined;
/** The last instance of this thread: each stream would leave its memory for the garbage collector. */
let spare: Unzstd | undefined;

/**
 * Decompresses zstd as its bytes arrive, with 1 MB of memory and the window of the stream: about 700 MB a second on the
 * thread that calls it.
 */
export class ZstdDecoder implements Disposable {
  readonly #unzstd: Unzstd;
  #isInFrame = true;

  /** @param windowLog base 2 logarithm of the largest window of a stream */
  constructor(windowLog: number) {
    compiled ??= new WebAssembly.Module(readFileSync(new URL('./unzstd.wasm', import.meta.url)));
    this.#unzstd = spare ?? (new WebAssembly.Instance(compiled).exports as Unzstd);
    spare = undefined;
    if (this.#unzstd.open(windowLog) === 0) throw lacksMemory();
  }

  /** Where to put the next bytes for {@link decompress}: valid until then. */
  get input(): Buffer {
    const { memory, input, inputBytes } = this.#unzstd;
    return Buffer.from(memory.buffer, input(), inputBytes());
  }

  /**
   * Yields what the first bytes of the input decompress to: views that are valid until the next one. Throws
   * {@link ArchiveProblem}.
   */
  *decompress(bytes: number): Generator<Buffer> {
    const unzstd = this.#unzstd;
    unzstd.fill(bytes);
    for (;;) {
      const code = unzstd.decompress();
      if (code < 0) throw problem(code);
      const written = unzstd.written();
      if (written > 0) yield Buffer.from(unzstd.memory.buffer, unzstd.output(), written);
      this.#isInFrame = code > 0;
      // A stream that has used up its input may have more to give.
      if (unzstd.left() === 0 && (code === 0 || written === 0)) return;
    }
  }

  /** Ends the input. Throws {@link ArchiveProblem} if it is incomplete. */
  end(): void {
    if (this.#isInFrame) throw new ArchiveProblem('ends in the middle of zstd data');
  }

  [Symbol.dispose](): void {
    // One that has failed may be in any state.
    if (!this.#isInFrame && this.#unzstd.memory.buffer.byteLength <= keptBytes)
      spare = this.#unzstd;
  }
}

function problem(code: number): Error {
  if (code === outOfMemory) return lacksMemory();
  if (code === windowTooLarge) {
    return new ArchiveProblem('requires a larger zstd window than is allowed');
  }
  return new ArchiveProblem('has damaged compressed data');
}

function lacksMemory(): Error {
  return new Error('there is no memory to decompress zstd');
}
