import type { Attributes } from '../../../../archives/index.ts';
import { brokenSif } from '../../format/record.ts';
import { type Metadata, recordAt } from './metadata.ts';

const prefixes: Readonly<Record<number, string>> = { 0: 'user.', 1: 'trusted.', 2: 'security.' };
/** Bytes of one value: the limit of Linux. */
const maxValue = 64 * 1024;
/** Bytes of one name, without its prefix. */
const maxName = 255;
/** Bytes of all names and values of a file: readers of tar files accept at most 1 MiB. */
const maxBytes = 512 * 1024;
const maxCount = 1000;
/** Values at other places, each of which may be in a block of its own. */
const maxElsewhere = 100;
const elsewhere = 0x100;

/** The extended attributes of a squashfs, by the index that an inode contains. */
export interface AttributeTable {
  /** Throws a `Fault` for data that violates the format. */
  of(index: number): Attributes;
}

/** @param at start of the table; undefined if there is no table */
export function readAttributes(metadata: Metadata, at: number | undefined): AttributeTable {
  if (at === undefined) return { of: () => [] };
  const head = metadata.plain(at, 16);
  const values = Number(head.readBigUInt64LE());
  const table = { list: at + 16, count: head.readUInt32LE(8), size: 16 };
  const cursorAt = (place: bigint) =>
    metadata.cursor(values + Number(place >> 16n), Number(place & 0xffffn));

  return {
    of(index) {
      const record = recordAt(metadata, table, index);
      const count = record.readUInt32LE(8);
      if (count > maxCount) brokenSif('a file of it has too many attributes');
      const cursor = cursorAt(record.readBigUInt64LE());
      let bytes = 0;
      let elsewhereCount = 0;
      const takeValue = (from: typeof cursor) => {
        const size = from.take(4).readUInt32LE();
        bytes += size;
        if (size > maxValue || bytes > maxBytes) {
          brokenSif('a file of it has too long an attribute');
        }
        return from.take(size);
      };
      return Array.from({ length: count }, (): [string, string] => {
        const key = cursor.take(4);
        const type = key.readUInt16LE();
        const nameSize = key.readUInt16LE(2);
        bytes += nameSize;
        if (nameSize > maxName) brokenSif('a file of it has an attribute with too long a name');
        const name = cursor.take(nameSize).toString('latin1');
        const stored = takeValue(cursor);
        const isElsewhere = (type & elsewhere) !== 0;
        if (isElsewhere && stored.length !== 8) brokenSif('a file of it has a broken attribute');
        if (isElsewhere) elsewhereCount += 1;
        if (elsewhereCount > maxElsewhere) brokenSif('a file of it has too many attributes');
        const value = isElsewhere ? takeValue(cursorAt(stored.readBigUInt64LE())) : stored;
        return [`${prefixes[type & 0xff] ?? 'unknown.'}${name}`, value.toString('latin1')];
      });
    },
  };
}
