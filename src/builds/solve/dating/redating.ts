import { buildTime } from './build-time.ts';
import { sourcePathOf, sourceStampOf } from './byte-code.ts';
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
