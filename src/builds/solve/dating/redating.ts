import {
  type StoredEntry,
  setTime,
  type TarEntry,
  TarReader,
  type TarVisitor,
  tarBlockSize,
} from '../../../archives/index.ts';
import { buildTime } from './build-time.ts';

/** Sources beyond this number are not recorded: Python compiles them again. */
const maxSources = 1_000_000;
/** The time for code that was compiled from another text: no source has it. */
const outdated = 0;
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
        block.writeUInt32LE(isCurrent ? stampOf(buildTime) : outdated, stamp.offset);
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
