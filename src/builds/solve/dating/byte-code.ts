/** What a compiled Python file records about its source. */
export interface SourceStamp {
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
