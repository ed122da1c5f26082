import { closeSync, openSync, readSync } from 'node:fs';
import { zstdCompressSync, zstdDecompressSync } from 'node:zlib';
import { kindNumber, kindOfNumber, type ListedEntry } from '../listed-entry.ts';
import { DamagedListing, RecordReader, RecordWriter } from './byte-codec.ts';

/** Writes an entry. Its key is stored as the difference from the one before. */
function writeEntry(writer: RecordWriter, entry: ListedEntry, before: string): void {
  const shared = sharedLength(before, entry.key);
  writer.number(shared);
  writer.text(entry.key.slice(shared));
  const flags =
    (entry.hides ? 1 : 0) + (entry.hasCapabilities ? 2 : 0) + (entry.isImplicit ? 4 : 0);
  writer.number(kindNumber(entry.kind) + 8 * flags);
  writer.number(entry.mode);
  writer.number(entry.uid);
  writer.number(entry.gid);
  writer.number(entry.size);
  writer.text(entry.link);
  writer.text(entry.hash);
  writer.number(entry.twice);
}

/** Reads an entry; `before` is the key of the one before. */
function readEntryAfter(reader: RecordReader, before: string): ListedEntry {
  const key = before.slice(0, reader.number()) + reader.text();
  const kindAndFlags = reader.number();
  const flags = kindAndFlags >> 3;
  return {
    key,
    kind: kindOfNumber(kindAndFlags & 7),
    hides: (flags & 1) !== 0,
    hasCapabilities: (flags & 2) !== 0,
    isImplicit: (flags & 4) !== 0,
    mode: reader.number(),
    uid: reader.number(),
    gid: reader.number(),
    size: reader.number(),
    link: reader.text(),
    hash: reader.text(),
    twice: reader.number(),
  };
}

function sharedLength(one: string, other: string): number {
  const most = Math.min(one.length, other.length);
  let shared = 0;
  while (shared < most && one.charCodeAt(shared) === other.charCodeAt(shared)) shared += 1;
  return shared;
}

// The version is part of it: files of another version count as damaged.
const packMagic = Buffer.from('sluicel1');
const endMark = 0xffffffff;
// A comparison holds one block of each layer in memory.
const blockBytes = 128 * 1024;
// An entry has at most a path, a link and some numbers.
const largestBlock = blockBytes + 64 * 1024;

/** Returns the file of the entries of a layer, which are in the order of their keys: compressed blocks. */
export function packEntries(entries: readonly ListedEntry[]): Buffer<ArrayBuffer> {
  const parts: Buffer[] = [packMagic];
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
    let at = packMagic.length;
    if (!readAt(file, 0, packMagic.length).equals(packMagic)) throw new DamagedListing();
    for (;;) {
      const length = readAt(file, at, 4).readUInt32LE();
      if (length === endMark) return;
      if (length > largestBlock) throw new DamagedListing();
      const reader = new RecordReader(unpackBlock(readAt(file, at + 4, length)));
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

function unpackBlock(packed: Buffer): Buffer {
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
