import { createHash } from 'node:crypto';
import { closeSync, fstatSync, fsyncSync, openSync, readSync } from 'node:fs';
import { constants, zstdCompressSync } from 'node:zlib';
import { pack } from './msgpack.ts';
import { writeWhole } from './record-spill.ts';

/**
 * A file with the shards of one subdirectory of a channel, their index in the form of CEP 16, and a table that says where
 * each shard is: entries of a digest (32 bytes), a position (6) and a length (4), sorted by digest. The last bytes say
 * where index and table are.
 */
const magic = Buffer.from('sluice shards 1\n');
const digestBytes = 32;
const entryBytes = digestBytes + 6 + 4;
const footerBytes = 6 + 4 + 4 + magic.length;
const maxIndexBytes = 64 * 1024 * 1024;
const maxShards = 1_000_000;

/** The first level is fast and within a few percent of the usual one for data of this kind. */
const compression = { params: { [constants.ZSTD_c_compressionLevel]: 1 } };

/** Where a solver finds what an index lists. */
export interface ShardPlaces {
  readonly subdir: string;
  /** Base URL of the archives, with a slash at the end. */
  readonly archives: string;
  /** Base URL of the shards, with a slash at the end. */
  readonly shards: string;
}

/** Bytes that are appended one after another. */
class GrowingBytes {
  #bytes = Buffer.alloc(64 * 1024);
  #size = 0;

  push(more: Uint8Array): void {
    if (this.#size + more.length > this.#bytes.length) {
      this.#bytes = Buffer.concat([this.#bytes, Buffer.alloc(this.#bytes.length + more.length)]);
    }
    this.#bytes.set(more, this.#size);
    this.#size += more.length;
  }

  /** Returns the item at a place, of items that all have the same size. */
  item(at: number, size: number): Buffer {
    return this.#bytes.subarray(at * size, (at + 1) * size);
  }

  items(size: number): Buffer[] {
    return Array.from({ length: this.#size / size }, (_, at) => this.item(at, size));
  }
}

/** A file that the disk has damaged, or that is gone. */
export class DamagedPack extends Error {
  constructor() {
    super('kept repository data is damaged');
  }
}

/** Writes the file. Blocks its thread. */
export class ShardPackWriter {
  readonly #file: number;
  /** Names of packages, in the order of their digests. */
  readonly #names: string[] = [];
  /** Separate small buffers would each hold a whole slab of Node's pool. */
  readonly #digests = new GrowingBytes();
  readonly #entries = new GrowingBytes();
  #size = 0;

  constructor(path: string) {
    this.#file = openSync(path, 'wx', 0o600);
  }

  /** Adds the shard of a package, as MessagePack. */
  add(name: string, shard: Uint8Array): void {
    const bytes = zstdCompressSync(shard, compression);
    const digest = createHash('sha256').update(bytes).digest();
    const entry = Buffer.alloc(entryBytes);
    digest.copy(entry);
    entry.writeUIntBE(this.#size, digestBytes, 6);
    entry.writeUInt32BE(bytes.length, digestBytes + 6);
    this.#entries.push(entry);
    this.list(name, digest);
    this.#append(bytes);
  }

  /** Lists a shard that is not in the file. */
  list(name: string, digest: Uint8Array): void {
    this.#names.push(name);
    this.#digests.push(digest);
  }

  /** Writes index and table, and brings the file to the disk. */
  end({ subdir, archives, shards }: ShardPlaces): void {
    const index = zstdCompressSync(
      pack({
        info: { subdir, base_url: archives, shards_base_url: shards },
        shards: Object.fromEntries(
          this.#names.map((name, at) => [name, this.#digests.item(at, digestBytes)]),
        ),
      }),
      compression,
    );
    const footer = Buffer.alloc(footerBytes);
    footer.writeUIntBE(this.#size, 0, 6);
    footer.writeUInt32BE(index.length, 6);
    const entries = this.#entries.items(entryBytes).sort(Buffer.compare);
    footer.writeUInt32BE(entries.length, 10);
    magic.copy(footer, 14);
    this.#append(index);
    this.#append(Buffer.concat(entries));
    this.#append(footer);
    fsyncSync(this.#file);
  }

  close(): void {
    closeSync(this.#file);
  }

  #append(bytes: Uint8Array): void {
    writeWhole(this.#file, bytes);
    this.#size += bytes.length;
  }
}

function openPack(path: string): number {
  try {
    return openSync(path, 'r');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') throw new DamagedPack();
    throw error;
  }
}

/** Reads the file. Blocks its thread. */
export class ShardPack {
  readonly #file: number;
  readonly #table: Buffer;
  /** The index of CEP 16, compressed. */
  readonly index: Buffer;

  /** Throws {@link DamagedPack}. */
  constructor(path: string) {
    this.#file = openPack(path);
    try {
      const { size } = fstatSync(this.#file);
      const footer = this.#read(size - footerBytes, footerBytes);
      const indexAt = footer.readUIntBE(0, 6);
      const indexBytes = footer.readUInt32BE(6);
      const count = footer.readUInt32BE(10);
      const isWhole =
        footer.subarray(14).equals(magic) &&
        indexBytes <= maxIndexBytes &&
        count <= maxShards &&
        indexAt + indexBytes + count * entryBytes + footerBytes === size;
      if (!isWhole) throw new DamagedPack();
      this.index = this.#read(indexAt, indexBytes);
      this.#table = this.#read(indexAt + indexBytes, count * entryBytes);
    } catch (error) {
      closeSync(this.#file);
      throw error;
    }
  }

  /** Returns a compressed shard; undefined when it is not in the file. Throws {@link DamagedPack}. */
  shard(hex: string): Buffer | undefined {
    const digest = Buffer.from(hex, 'hex');
    let low = 0;
    let high = this.#table.length / entryBytes;
    while (low < high) {
      const middle = (low + high) >>> 1;
      const at = middle * entryBytes;
      const order = digest.compare(this.#table, at, at + digestBytes);
      if (order === 0) {
        const start = this.#table.readUIntBE(at + digestBytes, 6);
        const bytes = this.#read(start, this.#table.readUInt32BE(at + digestBytes + 6));
        const found = createHash('sha256').update(bytes).digest();
        if (!found.equals(digest)) throw new DamagedPack();
        return bytes;
      }
      if (order < 0) high = middle;
      else low = middle + 1;
    }
    return undefined;
  }

  close(): void {
    closeSync(this.#file);
  }

  #read(start: number, length: number): Buffer {
    const bytes = Buffer.allocUnsafe(length);
    if (start < 0 || length < 0 || readSync(this.#file, bytes, 0, length, start) !== length) {
      throw new DamagedPack();
    }
    return bytes;
  }
}
