import { buildTime } from './build-time.ts';
import type { LayerEntry, LayerVisitor } from './tar-entries.ts';

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
  readonly isDatable: boolean;
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
  reader(): LayerVisitor & { readonly hasPython: boolean } {
    let hasPython = false;
    return {
      get hasPython() {
        return hasPython;
      },
      entry: entry => {
        const isSource = entry.path.endsWith('.py');
        if (isSource) this.#note(entry);
        hasPython ||= isSource || entry.path.endsWith('.pyc');
        return false;
      },
      content() {},
    };
  }

  /** Returns a visitor that changes a layer. */
  writer(): LayerVisitor {
    let path = '';
    return {
      entry: entry => {
        path = entry.path;
        if (entry.mtime > buildTime && entry.isDatable) entry.date(buildTime);
        return entry.type === '0' && entry.size >= 16 && path.endsWith('.pyc');
      },
      content: block => {
        const stamp = sourceStampOf(block);
        const source = this.#sources.get(sourcePathOf(path));
        if (!stamp || !source?.isDatable || stamp.mtime <= buildTime) return;
        const isSameSize = stamp.size === undefined || stamp.size === (source.size ?? stamp.size);
        const isCurrent = stamp.mtime === stampOf(source.mtime) && isSameSize;
        block.writeUInt32LE(isCurrent ? stampOf(buildTime) : outdated, stamp.offset);
        if (isCurrent) this.compiled += 1;
      },
    };
  }

  #note({ path, type, size, mtime, link, isDatable }: LayerEntry): void {
    if (this.#sources.size >= maxSources && !this.#sources.has(path)) return;
    const linked = type === '1' ? this.#sources.get(link)?.size : size;
    // A copy: a substring would keep the whole longer text in memory.
    const name = Buffer.from(path, 'latin1').toString('latin1');
    this.#sources.set(name, { mtime, size: linked, isDatable });
  }
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
