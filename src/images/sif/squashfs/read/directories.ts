import { brokenSif } from '../../format/record.ts';
import type { SquashfsInode } from './inodes.ts';
import type { Metadata } from './metadata.ts';

/** A name in a directory. */
export interface DirectoryEntry {
  /** One character per byte. */
  readonly name: string;
  /** Position of the inode, see `readInode`. */
  readonly inode: number;
}

/** The size of a list counts `.` and `..`, which the list does not contain. */
const dots = 3;
const maxRun = 256;
const maxName = 255;

/** Yields the names of a directory. Throws a `Fault` for invalid data, and for a name that leads elsewhere. */
export function* readDirectory(
  metadata: Metadata,
  directoryTable: number,
  { size, list }: Pick<SquashfsInode, 'size' | 'list'>,
): Generator<DirectoryEntry> {
  let rest = size - dots;
  if (rest <= 0) return;
  const cursor = metadata.cursor(directoryTable + list.block, list.offset);
  const take = (length: number) => {
    rest -= length;
    if (rest < 0) brokenSif('a directory of it is longer than it says');
    return cursor.take(length);
  };
  let previous = '';
  while (rest > 0) {
    const head = take(12);
    const count = head.readUInt32LE() + 1;
    const block = head.readUInt32LE(4);
    if (count > maxRun) brokenSif('a directory of it has too long a list');
    for (let index = 0; index < count; index += 1) {
      const entry = take(8);
      const length = entry.readUInt16LE(6) + 1;
      if (length > maxName) brokenSif(`it has a name longer than ${maxName} bytes`);
      const name = take(length).toString('latin1');
      if (/[/\0]/.test(name) || name === '.' || name === '..') {
        brokenSif('it has a name that leads out of its directory');
      }
      // Names must be sorted, so no name can occur twice.
      if (previous !== '' && name <= previous) brokenSif('a directory of it is not sorted');
      previous = name;
      yield { name, inode: block * 65536 + entry.readUInt16LE(0) };
    }
  }
}
