import { createHash } from 'node:crypto';
import { closeSync, fstatSync, fsyncSync, openSync, readSync, writeSync } from 'node:fs';
import { constants, zstdCompressSync } from 'node:zlib';
import type { RecordSection } from './json-records.ts';
import { pack } from './msgpack.ts';

/**
 * A file with the shards of one subdirectory of a channel, their index in the form of CEP 16, and a table that says where
 * each shard is: entries of a digest (32 bytes), a position (6) and a length (4), sorted by digest. The last bytes say
 * where index and table are.
 */
const packMagic = Buffer.from('sluice shards 1\n');
const digestBytes = 32;
const entryBytes = digestBytes + 6 + 4;
const footerBytes = 6 + 4 + 4 + packMagic.length;
const maxIndexBytes = 64 * 1024 * 1024;
const maxShards = 1_000_000;

/** The first level is fast and within a few percent of the usual one for data of this kind. */
const compression = { params: { [constants.ZSTD_c_compressionLevel]: 1 } };

/** Where a solver finds what an index lists. */
interface ShardPlaces {
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
    packMagic.copy(footer, 14);
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
        footer.subarray(14).equals(packMagic) &&
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

/** Consecutive bytes of the spill file with records of one package. */
interface Run {
  readonly section: RecordSection;
  readonly start: number;
  bytes: number;
  count: number;
}

/** The records of one section of a shard: so many entries of a map, as MessagePack. */
interface SpilledSection {
  readonly count: number;
  readonly bytes: readonly Buffer[];
}

const spillBufferBytes = 1024 * 1024;

/**
 * Keeps records in a file until all are known: those of one package stand in several places of the repository data.
 * Writes synchronously, so it belongs on its own thread.
 */
export class RecordSpill {
  readonly #file: number;
  readonly #runs = new Map<string, Run[]>();
  readonly #buffer = Buffer.allocUnsafe(spillBufferBytes);
  #fill = 0;
  #size = 0;

  /** @param file descriptor of an empty file that is open for reading and writing */
  constructor(file: number) {
    this.#file = file;
  }

  /** Names of all packages, sorted. */
  get names(): readonly string[] {
    return [...this.#runs.keys()].sort();
  }

  /** Adds an entry of the map of a section: its key and its value, as MessagePack. */
  add(name: string, section: RecordSection, entry: Uint8Array): void {
    const start = this.#size;
    this.#append(entry);
    const runs = this.#runs.get(name);
    const last = runs?.at(-1);
    if (last && last.section === section && last.start + last.bytes === start) {
      last.bytes += entry.length;
      last.count += 1;
      return;
    }
    const run: Run = { section, start, bytes: entry.length, count: 1 };
    if (runs) runs.push(run);
    else this.#runs.set(name, [run]);
  }

  section(name: string, section: RecordSection): SpilledSection {
    this.#flush();
    const runs = (this.#runs.get(name) ?? []).filter(run => run.section === section);
    return {
      count: runs.reduce((sum, { count }) => sum + count, 0),
      bytes: runs.map(run => {
        const bytes = Buffer.allocUnsafe(run.bytes);
        if (readSync(this.#file, bytes, 0, run.bytes, run.start) !== run.bytes) {
          throw new Error('the file of records ends too early');
        }
        return bytes;
      }),
    };
  }

  #append(entry: Uint8Array): void {
    if (this.#fill + entry.length > spillBufferBytes) this.#flush();
    if (entry.length > spillBufferBytes) {
      writeWhole(this.#file, entry);
    } else {
      this.#buffer.set(entry, this.#fill);
      this.#fill += entry.length;
    }
    this.#size += entry.length;
  }

  #flush(): void {
    writeWhole(this.#file, this.#buffer.subarray(0, this.#fill));
    this.#fill = 0;
  }
}

/** Appends all bytes to a file. */
function writeWhole(file: number, bytes: Uint8Array): void {
  for (let done = 0; done < bytes.length; ) {
    done += writeSync(file, bytes, done, bytes.length - done);
  }
}
