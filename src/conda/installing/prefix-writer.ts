import { tarPadding, ustarHeader, type WrittenEntry } from '../../archives/tar-writer.ts';
import { ArchiveProblem, checkLength } from '../archives/archive-checks.ts';

/** Receives the bytes of a layer. */
export interface TarOutput {
  /** Takes the next bytes, which are valid until it returns or its promise resolves. */
  write(bytes: Uint8Array): Promise<void> | void;
}

export interface PrefixWriterInput {
  /** Absolute path of the environment. */
  readonly prefix: string;
  /** Directory relative to the prefix to which a file may come after all others. */
  readonly lastDirectory: string;
  readonly maxDirectories: number;
  readonly sink: TarOutput;
}

export const directoryMode = 0o755;
export const fileMode = 0o644;
/** A text up to this size is made once. */
const wholeTextBytes = 2 * 1024 * 1024;

/** Writes tar entries below a prefix, each directory before what is in it. Paths are relative to the prefix, and sorted. */
export class PrefixWriter {
  readonly #input: PrefixWriterInput;
  readonly #root: string;
  readonly #lastDirectory: string;
  /** The directory that was written last, or that has the last entry: those above it were written as well. */
  #last = '';
  #directories = 0;
  #hasLastDirectory = false;

  constructor(input: PrefixWriterInput) {
    this.#input = input;
    this.#root = input.prefix.replace(/^\/+/, '');
    this.#lastDirectory = this.full(input.lastDirectory);
  }

  /** Returns a path in the tar file. */
  full(path: string): string {
    return `${this.#root}/${path}`;
  }

  /** Writes the header of an entry; its content follows by {@link write}. */
  async entry(entry: WrittenEntry): Promise<void> {
    const { path, kind } = entry;
    checkLength(path, this.full(path));
    await this.#parents(path);
    if (kind === 'directory') this.#enter(this.full(path));
    await this.write(ustarHeader({ ...entry, path: this.full(path) }));
  }

  /** Writes a file whose bytes are here. */
  async file(path: string, bytes: Buffer, mode: number = fileMode): Promise<void> {
    await this.entry({ path, kind: 'file', mode, size: bytes.length });
    await this.write(bytes);
    await this.padding(bytes.length);
  }

  /** Writes a file whose text comes in pieces, the same each time that it is asked for. */
  async textFile(path: string, pieces: () => Iterable<string>): Promise<void> {
    let size = 0;
    let first: Buffer[] = [];
    for (const piece of pieces()) {
      const bytes = Buffer.from(piece);
      size += bytes.length;
      if (size <= wholeTextBytes) first.push(bytes);
      else first = [];
    }
    await this.entry({ path, kind: 'file', mode: fileMode, size });
    if (size <= wholeTextBytes) for (const bytes of first) await this.write(bytes);
    else for (const piece of pieces()) await this.write(Buffer.from(piece));
    await this.padding(size);
  }

  async write(bytes: Uint8Array): Promise<void> {
    if (bytes.length > 0) await this.#input.sink.write(bytes);
  }

  /** Ends the content of a file with its size. */
  padding(size: number): Promise<void> {
    return this.write(tarPadding(size));
  }

  async #parents(path: string): Promise<void> {
    const full = this.full(path);
    const missing: string[] = [];
    for (let at = full.lastIndexOf('/'); at > 0; at = full.lastIndexOf('/', at - 1)) {
      const directory = full.slice(0, at);
      if (this.#isWritten(directory)) break;
      missing.push(directory);
    }
    for (const directory of missing.reverse()) {
      this.#enter(directory);
      await this.write(ustarHeader({ path: directory, kind: 'directory', mode: directoryMode }));
    }
    const end = full.lastIndexOf('/');
    if (end > 0) this.#last = full.slice(0, end);
  }

  #isWritten(directory: string): boolean {
    if (directory === this.#last || this.#last.startsWith(`${directory}/`)) return true;
    return directory === this.#lastDirectory && this.#hasLastDirectory;
  }

  #enter(directory: string): void {
    this.#last = directory;
    if (directory === this.#lastDirectory) this.#hasLastDirectory = true;
    this.#directories += 1;
    const most = this.#input.maxDirectories;
    if (this.#directories > most) throw new ArchiveProblem(`has more than ${most} directories`);
  }
}
