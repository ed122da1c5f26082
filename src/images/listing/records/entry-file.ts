import { closeSync, openSync, readSync } from 'node:fs';
import { zstdCompressSync, zstdDecompressSync } from 'node:zlib';
import { DamagedListing, RecordReader, RecordWriter } from './byte-codec.ts';
import { type ListedEntry, readEntryAfter, writeEntry } from './listed-entry.ts';

// The version is part of it: files of another version count as damaged.
const magic = Buffer.from('sluicel1');
const endMark = 0xffffffff;
// A comparison holds one block of each layer in memory.
const blockBytes = 128 * 1024;
// An entry has at most a path, a link and some numbers.
const largestBlock = blockBytes + 64 * 1024;

/** Returns the file of the entries of a layer, which are in the order of their keys: compressed blocks. */
export function packEntries(entries: readonly ListedEntry[]): Buffer<ArrayBuffer> {
  const parts: Buffer[] = [magic];
  const writer = new RecordWriter();
  let before = '';
  const flush = () => {
    const packed = zstdCompressSync(writer.take());
    parts.push(lengthOf(packed.length), packed);
    before = '';
  };
  for (const entry of entries) {
    writeEntry(writer, entry, before);
    before = entry.key;
    if (writer.length >= blockBytes) flush();
  }
  if (writer.length > 0) flush();
  parts.push(lengthOf(endMark));
  return Buffer.concat(parts);
}

/** Yields the entries of such a file; for threads, which may wait for the disk. Throws {@link DamagedListing}. */
export function* readEntries(path: string): Generator<ListedEntry, void> {
  const file = openSync(path, 'r');
  try {
    let at = magic.length;
    if (!readAt(file, 0, magic.length).equals(magic)) throw new DamagedListing();
    for (;;) {
      const length = readAt(file, at, 4).readUInt32LE();
      if (length === endMark) return;
      if (length > largestBlock) throw new DamagedListing();
      const reader = new RecordReader(unpack(readAt(file, at + 4, length)));
      at += 4 + length;
      for (let before = ''; !reader.isAtEnd; ) {
        const entry = readEntryAfter(reader, before);
        before = entry.key;
        yield entry;
      }
    }
  } finally {
    closeSync(file);
  }
}

function readAt(file: number, position: number, length: number): Buffer {
  const bytes = Buffer.allocUnsafe(length);
  if (readSync(file, bytes, 0, length, position) !== length) throw new DamagedListing();
  return bytes;
}

function unpack(packed: Buffer): Buffer {
  try {
    return zstdDecompressSync(packed, { maxOutputLength: largestBlock });
  } catch (error) {
    throw new DamagedListing({ cause: error });
  }
}

function lengthOf(length: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(length);
  return bytes;
}
