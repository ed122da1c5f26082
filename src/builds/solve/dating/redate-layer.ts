import { createHash } from 'node:crypto';
import { type Duplex, PassThrough, type Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createGunzip, createGzip, createZstdDecompress } from 'node:zlib';
import {
  type StoredEntry,
  setTime,
  type TarEntry,
  TarReader,
  type TarVisitor,
  tarBlockSize,
} from '../../../archives/index.ts';
import type { FileTree } from '../../../buildkit/index.ts';
import { createGzipWriter, memberBytes } from '../../../conda/layers/gzip/index.ts';
import { createSteadyZstd } from '../../../foundation/steady-zstd.ts';
import type { Digest } from '../../../oci/digest.ts';
import type { LayerCompression } from '../../plan/build-plan.ts';
import { type KeptPart, PrunedLayer } from './pruned-layer.ts';

const chunkSize = 256 * 1024;

/** A layer before its dates are set. */
export interface PackedLayer {
  /** Bytes, compressed. */
  readonly size: number;
  /** Reads it from its beginning; each reader may change the bytes. */
  readonly open: () => Readable;
  /** The file with it, if it is in one. */
  readonly path?: string | undefined;
  /** Its compression; undefined for none. */
  readonly packing: 'gzip' | 'zstd' | undefined;
}

/** How to compress a layer. */
export interface LayerForm {
  readonly mode: 'gzip' | 'zstd';
  readonly level?: number;
  /** What is kept of the layer, without dates of a build. Default: all of it. */
  readonly kept?: KeptPart;
}

/** Returns how to compress layers as requested. */
export function formOf(compression: LayerCompression | undefined): LayerForm {
  // Layers with a table were made by the builder.
  if (!compression || compression.mode === 'estargz') return { mode: 'gzip' };
  const { mode, level } = compression;
  return { mode, ...(level === undefined ? {} : { level }) };
}

// Higher levels take windows of memory that readers refuse.
const mostZstd = 19;

function unpacker({ packing }: PackedLayer): Duplex {
  if (packing === undefined) return new PassThrough();
  return packing === 'zstd' ? createZstdDecompress({ chunkSize }) : createGunzip({ chunkSize });
}

function packer({ mode, level }: LayerForm) {
  if (mode === 'gzip') return level === undefined ? gzipMembers : createGzip({ chunkSize, level });
  return createSteadyZstd(level === undefined ? undefined : Math.min(level, mostZstd));
}

/**
 * Compresses without a level of zlib: the bytes are the same on every machine, in half the time
 * ([why](../../../../docs/adr/0042-one-deflate-for-ever.md)).
 */
async function* gzipMembers(chunks: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  const members: Buffer[] = [];
  using gzip = createGzipWriter(member => members.push(member), { storesRandom: true });
  for await (const chunk of chunks) {
    for (let at = 0; at < chunk.length; at += memberBytes) {
      gzip.write(chunk.subarray(at, at + memberBytes));
      yield* members.splice(0);
    }
  }
  gzip.end();
  yield* members;
}

/** Reads layers, and writes them with their dates. All are read before the first one is written: see {@link Redating}. */
export interface LayerDater {
  /** Returns the number of compiled files that now have the date of their source. */
  compiled(): Promise<number>;
  /** Forgets the layers that were read. */
  restart(): Promise<void>;
  /**
   * Reads a layer. Returns whether it has Python code: its dates and those of other layers with such code depend on
   * each other.
   */
  read(layer: PackedLayer): Promise<boolean>;
  /**
   * Writes a layer with its dates. It is compressed again even if nothing in it changes: the same recipe gives the same
   * bytes, whatever the builder still had. Returns the digest of its tar file.
   *
   * @param put receives the layer piece by piece: views that are valid until it resolves
   */
  write(
    layer: PackedLayer,
    form: LayerForm,
    put: (piece: Uint8Array) => Promise<void> | void,
  ): Promise<Digest>;
}

/** Dates layers on this thread. */
export function createLayerDater(signal?: AbortSignal): LayerDater {
  let redating = new Redating();
  return {
    compiled: async () => redating.compiled,
    async restart() {
      redating = new Redating();
    },

    async read(layer) {
      const reader = redating.reader();
      const entries = new PassingLayer(reader);
      await pipeline(
        layer.open(),
        unpacker(layer),
        async (chunks: AsyncIterable<Buffer>) => {
          for await (const chunk of chunks) entries.pass(chunk);
          entries.end();
        },
        { signal },
      );
      return reader.hasPython;
    },

    async write(layer, form, put) {
      const { kept } = form;
      const entries = kept ? new PrunedLayer(kept) : new PassingLayer(redating.writer());
      const hash = createHash('sha256');
      const take = (bytes: Buffer): Buffer => {
        hash.update(bytes);
        return bytes;
      };
      await pipeline(
        layer.open(),
        unpacker(layer),
        async function* change(chunks: AsyncIterable<Buffer>) {
          for await (const chunk of chunks) yield take(entries.pass(chunk));
          yield take(entries.end());
        },
        packer(form),
        async (chunks: AsyncIterable<Buffer>) => {
          for await (const chunk of chunks) await put(chunk);
        },
        { signal },
      );
      return `sha256:${hash.digest('hex')}` as Digest;
    },
  };
}

/** Sources beyond this number are not recorded: Python compiles them again. */
const maxSources = 1_000_000;
/** The time for code that was compiled from another text: no source has it. */
const outdatedStamp = 0;
// The 32-bit form that Python stores.
const stampOf = (mtime: number) => mtime >>> 0;

interface Source {
  readonly mtime: number;
  /** Bytes; undefined for a hard link to a file of another name. */
  readonly size: number | undefined;
  /** False if its time is stored where it cannot be changed. */
  readonly isDatable: boolean;
}

/** Shows a visitor the entries of a layer as its bytes pass. The visitor may change headers and content in place. */
export class PassingLayer {
  readonly #reader: TarReader;
  #rest: Buffer = Buffer.alloc(0);

  constructor(visitor: TarVisitor) {
    this.#reader = new TarReader(visitor);
  }

  /** Takes the next bytes; returns the finished ones, in whole blocks. Throws `TarError` for what no builder writes. */
  pass(chunk: Buffer): Buffer {
    const bytes = this.#rest.length > 0 ? Buffer.concat([this.#rest, chunk]) : chunk;
    const whole = bytes.subarray(0, bytes.length - (bytes.length % tarBlockSize));
    this.#reader.write(whole);
    this.#rest = Buffer.from(bytes.subarray(whole.length));
    return whole;
  }

  /** Returns the bytes after the last block; a well-formed layer has none. */
  end(): Buffer {
    this.#reader.end();
    return this.#rest;
  }
}

/**
 * Sets the date of a build on everything the build has made. Compiled Python code gets the date of its source if it was
 * compiled from it. All layers are read before the first one is changed: the source may be in any of them.
 */
export class Redating {
  readonly #sources = new Map<string, Source>();
  /** Number of compiled files that now have the date of their source. */
  compiled = 0;

  /**
   * Returns a visitor that records the Python sources of a layer. Sources of later layers replace those of earlier
   * ones.
   */
  reader(): TarVisitor & { readonly hasPython: boolean } {
    let hasPython = false;
    return {
      get hasPython() {
        return hasPython;
      },
      entry: (entry, stored) => {
        const isSource = entry.path.endsWith('.py');
        if (isSource) this.#note(entry, stored);
        hasPython ||= isSource || entry.path.endsWith('.pyc');
        return false;
      },
      content() {},
    };
  }

  /** Returns a visitor that changes a layer. */
  writer(): TarVisitor {
    let path = '';
    let isBegun = false;
    return {
      entry: ({ mtime, kind, size, isSparse, ...entry }, { header, hasPaxTime }) => {
        path = entry.path;
        isBegun = false;
        if (mtime > buildTime && !hasPaxTime) setTime(header, buildTime);
        return kind === 'file' && !isSparse && size >= 16 && path.endsWith('.pyc');
      },
      content: block => {
        if (isBegun) return;
        isBegun = true;
        const stamp = sourceStampOf(block);
        const source = this.#sources.get(sourcePathOf(plainPath(path)));
        if (!stamp || !source?.isDatable || stamp.mtime <= buildTime) return;
        const isSameSize = stamp.size === undefined || stamp.size === (source.size ?? stamp.size);
        const isCurrent = stamp.mtime === stampOf(source.mtime) && isSameSize;
        block.writeUInt32LE(isCurrent ? stampOf(buildTime) : outdatedStamp, stamp.offset);
        if (isCurrent) this.compiled += 1;
      },
    };
  }

  #note({ kind, size, mtime, link, ...entry }: TarEntry, { hasPaxTime }: StoredEntry): void {
    const path = plainPath(entry.path);
    if (this.#sources.size >= maxSources && !this.#sources.has(path)) return;
    const linked = kind === 'link' ? this.#sources.get(plainPath(link))?.size : size;
    // A copy: a substring would keep the whole longer text in memory.
    const name = Buffer.from(path, 'latin1').toString('latin1');
    // BuildKit writes whole seconds, which fit into the header.
    this.#sources.set(name, { mtime, size: linked, isDatable: !hasPaxTime });
  }
}

/** Returns a path of a layer without a leading `/` or `./`. */
function plainPath(path: string): string {
  return path.replace(/^(?:\.?\/)+/, '');
}

/** What a compiled Python file records about its source. */
interface SourceStamp {
  /** Offset of the time in the file: 4 bytes, little endian. */
  readonly offset: number;
  /** Seconds since the epoch, as a 32-bit number. */
  readonly mtime: number;
  /** Bytes of the source; undefined if the format does not record it. */
  readonly size: number | undefined;
}

/**
 * Reads the header of a `.pyc` file; returns undefined if it does not depend on the time of its source. Sources: PEP
 * 552; CPython, Lib/importlib/_bootstrap_external.py, list of magic numbers.
 */
export function sourceStampOf(head: Buffer): SourceStamp | undefined {
  if (head.length < 16 || head.readUInt16LE(2) !== 0x0a0d) return undefined;
  const magic = head.readUInt16LE(0);
  // Python 3.7 and later: flags, 0 for a time stamp.
  if (magic >= 3390 && magic < 20_000) {
    return head.readUInt32LE(4) === 0 ? stampAt(head, 8, true) : undefined;
  }
  // Python 3.3 to 3.6, and Python 2.
  if (magic >= 3190 && magic < 3390) return stampAt(head, 4, true);
  return magic >= 62_000 ? stampAt(head, 4, false) : undefined;
}

function stampAt(head: Buffer, offset: number, hasSize: boolean): SourceStamp {
  const size = hasSize ? head.readUInt32LE(offset + 4) : undefined;
  return { offset, mtime: head.readUInt32LE(offset), size };
}

/**
 * Returns the path of the source of a `.pyc` file. Since Python 3.2 the compiled file is in a cache folder. Source: PEP
 * 3147.
 */
export function sourcePathOf(path: string): string {
  const slash = path.lastIndexOf('/') + 1;
  const folder = path.slice(0, slash);
  const name = path.slice(slash);
  const cache = '__pycache__/';
  if (!folder.endsWith(cache)) return `${folder}${name.slice(0, -'c'.length)}`;
  return `${folder.slice(0, -cache.length)}${name.slice(0, name.indexOf('.'))}.py`;
}

/**
 * Date of everything that a build makes, in seconds since the epoch: 2025-01-01. The same recipe gives the same bytes
 * at any time. Zip files cannot hold dates before 1980, in any time zone. Most packages that a step installs are older:
 * their files keep their own dates.
 */
export const buildTime = Date.UTC(2025, 0, 1) / 1000;

/** Returns the same files, all with the date of a build: a build context has no dates. */
export function datedTree(tree: FileTree): FileTree {
  const mtimeMs = buildTime * 1000;
  return {
    list: async directory => (await tree.list(directory)).map(entry => ({ ...entry, mtimeMs })),
    read: path => tree.read(path),
  };
}
