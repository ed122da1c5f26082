import { closeSync, readFileSync, readSync, writeSync } from 'node:fs';
import { ArchiveProblem } from '../archive-checks.ts';
import { openUnnamed } from '../scratch-bytes.ts';

/** What is used of it here: the types of Node do not have it. */
declare const WebAssembly: {
  readonly Module: new (bytes: Uint8Array) => object;
  readonly Instance: new (module: object, imports: object) => { readonly exports: unknown };
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
  keptAt(): number;
  keptBytes(): number;
}

/** An instance with the file that has what its memory lacks. */
interface Instance {
  readonly unzstd: Unzstd;
  file?: WindowFile | undefined;
}

const outOfMemory = -64;
const windowTooLarge = -16;

let compiled: object | undefined;
/** The last instance of this thread: each stream would leave its memory for the garbage collector. */
let spare: Instance | undefined;

/**
 * Decompresses zstd as its bytes arrive, with 1 MB of memory and the last 8 MiB of the window at most: about 700 MB a second
 * on the thread that calls it. A file has the rest of a larger window.
 */
export class ZstdDecoder implements Disposable {
  readonly #instance: Instance;
  readonly #file: WindowFile;
  #isInFrame = true;

  /**
   * @param windowLog base 2 logarithm of the largest window of a stream
   * @param scratch directory for a file without a name
   */
  constructor(windowLog: number, scratch: string) {
    this.#instance = spare ?? createInstance();
    spare = undefined;
    const { unzstd } = this.#instance;
    this.#file = new WindowFile(scratch, unzstd.keptBytes());
    this.#instance.file = this.#file;
    if (unzstd.open(windowLog) === 0) throw lacksMemory();
  }

  /** Where to put the next bytes for {@link decompress}: valid until then. */
  get input(): Buffer {
    const { memory, input, inputBytes } = this.#instance.unzstd;
    return Buffer.from(memory.buffer, input(), inputBytes());
  }

  /**
   * Yields what the first bytes of the input decompress to: views that are valid until the next one. Throws
   * {@link ArchiveProblem}.
   */
  *decompress(bytes: number): Generator<Buffer> {
    const { unzstd } = this.#instance;
    unzstd.fill(bytes);
    for (;;) {
      const code = unzstd.decompress();
      if (code < 0) throw problem(code);
      const written = unzstd.written();
      if (written > 0) {
        const bytes = Buffer.from(unzstd.memory.buffer, unzstd.output(), written);
        const position = unzstd.keptAt();
        if (position >= 0) this.#file.write(bytes, position);
        yield bytes;
      }
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
    this.#file[Symbol.dispose]();
    this.#instance.file = undefined;
    // One that has failed may be in any state.
    if (!this.#isInFrame) spare = this.#instance;
  }
}

function createInstance(): Instance {
  compiled ??= new WebAssembly.Module(readFileSync(new URL('./unzstd.wasm', import.meta.url)));
  const read = (to: number, position: number, bytes: number): void =>
    instance.file?.read(Buffer.from(instance.unzstd.memory.buffer, to, bytes), position);
  const { exports } = new WebAssembly.Instance(compiled, { window: { read } });
  const instance: Instance = { unzstd: exports as Unzstd };
  return instance;
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

/** The last bytes of a stream, in a file without a name that goes round. Blocks the thread. */
class WindowFile implements Disposable {
  readonly #directory: string;
  readonly #size: number;
  #fd: number | undefined;

  /**
   * @param directory where the file is made, with the first bytes
   * @param size of the file, in bytes
   */
  constructor(directory: string, size: number) {
    this.#directory = directory;
    this.#size = size;
  }

  /** Throws the error of the file system if the disk is full. */
  write(bytes: Buffer, position: number): void {
    this.#fd ??= openUnnamed(this.#directory);
    for (let at = 0; at < bytes.length; ) {
      const start = (position + at) % this.#size;
      const length = Math.min(bytes.length - at, this.#size - start);
      at += writeSync(this.#fd, bytes, at, length, start);
    }
  }

  /** Fills `bytes` with what is at a position. */
  read(bytes: Buffer, position: number): void {
    for (let at = 0; at < bytes.length; ) {
      const start = (position + at) % this.#size;
      const length = Math.min(bytes.length - at, this.#size - start);
      const read = readSync(this.#fd ?? -1, bytes, at, length, start);
      if (read === 0) throw new RangeError('reads past the end of the window');
      at += read;
    }
  }

  [Symbol.dispose](): void {
    if (this.#fd !== undefined) closeSync(this.#fd);
    this.#fd = undefined;
  }
}
