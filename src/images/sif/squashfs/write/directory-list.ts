import type { DirectoryIndex, DirectoryList } from './inode-record.ts';
import type { MetadataWriter } from './metadata-writer.ts';

/** A name in a directory. */
export interface ListedName {
  /** One character per byte. */
  readonly name: string;
  /** Number of the kind, see `inodeTypes`. */
  readonly type: number;
  readonly number: number;
  /** Place of the inode, as in `MetadataWriter`. */
  readonly place: number;
}

const maxRun = 256;
const minDelta = -(2 ** 15);
const maxDelta = 2 ** 15 - 1;
const headBytes = 12;
const nameHeadBytes = 8;
const maxIndexes = 2 ** 16 - 1;
const indexEvery = 8192;
/** Bytes of the longest run with its head. */
const longestRun = headBytes + maxRun * (nameHeadBytes + 255);

/** Writes the list of one directory. Names come in the order of their bytes. */
export class DirectoryListWriter {
  readonly #metadata: MetadataWriter;
  readonly #block: number;
  readonly #offset: number;
  readonly #indexEvery: number;
  readonly #indexes: DirectoryIndex[] = [];
  #run: ListedName[] = [];
  #runBytes = 0;
  #size = 0;
  /** Bytes of the list before the last index. */
  #indexedAt = 0;

  /** @param mostBytes the most bytes that the names may have together */
  constructor(metadata: MetadataWriter, mostBytes: number) {
    this.#metadata = metadata;
    this.#block = metadata.block;
    this.#offset = metadata.offset;
    this.#indexEvery = Math.max(indexEvery, Math.ceil(mostBytes / maxIndexes));
  }

  add(name: ListedName): void {
    const [first] = this.#run;
    if (first) {
      const delta = name.number - first.number;
      const fits =
        this.#run.length < maxRun &&
        blockOf(name) === blockOf(first) &&
        delta >= minDelta &&
        delta <= maxDelta &&
        this.#size + this.#runBytes - this.#indexedAt < this.#indexEvery;
      if (!fits) this.#endRun();
    }
    this.#run.push(name);
    this.#runBytes += nameHeadBytes + name.name.length;
  }

  end(): DirectoryList {
    this.#endRun();
    return {
      size: this.#size,
      block: this.#block,
      offset: this.#offset,
      indexes: this.#indexes,
    };
  }

  #endRun(): void {
    const [first] = this.#run;
    if (!first) return;
    if (this.#size - this.#indexedAt >= this.#indexEvery) {
      this.#indexes.push({ at: this.#size, block: this.#metadata.block, name: first.name });
      this.#indexedAt = this.#size;
    }
    const bytes = Buffer.allocUnsafe(Math.min(headBytes + this.#runBytes, longestRun));
    bytes.writeUInt32LE(this.#run.length - 1);
    bytes.writeUInt32LE(blockOf(first), 4);
    bytes.writeUInt32LE(first.number, 8);
    let at = headBytes;
    for (const { name, type, number, place } of this.#run) {
      bytes.writeUInt16LE(place % 65_536, at);
      bytes.writeInt16LE(number - first.number, at + 2);
      bytes.writeUInt16LE(type, at + 4);
      bytes.writeUInt16LE(name.length - 1, at + 6);
      bytes.write(name, at + nameHeadBytes, 'latin1');
      at += nameHeadBytes + name.length;
    }
    this.#metadata.add(bytes);
    this.#size += bytes.length;
    this.#run = [];
    this.#runBytes = 0;
  }
}

function blockOf({ place }: ListedName): number {
  return Math.floor(place / 65_536);
}
