import { closeSync, openSync, readSync } from 'node:fs';
import { zstdCompressSync, zstdDecompressSync } from 'node:zlib';
import { DamagedListing, type ListedEntry, readJson } from './listed-entry.ts';

// The version is part of it: files of another version count as damaged.
const magic = Buffer.from('sluicel2');
const endMark = 0xffffffff;
// A comparison holds one block of each layer in memory.
const blockBytes = 128 * 1024;
// An entry has at most a path, a link and some numbers. JSON has at most six bytes for a byte of them.
const largestBlock = 4 * blockBytes;

/** Returns the file of the entries of a layer, which are in the order of their keys: compressed blocks with a line of JSON each. */
export function packEntries(entries: readonly ListedEntry[]): Buffer<ArrayBuffer> {
  const parts: Buffer[] = [magic];
  let block = '';
  const flush = () => {
    const packed = zstdCompressSync(block);
    parts.push(lengthOf(packed.length), packed);
    block = '';
  };
  for (const entry of entries) {
    block += `${JSON.stringify(entry)}\n`;
    if (block.length >= blockBytes) flush();
  }
  if (block !== '') flush();
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
      const lines = unpack(readAt(file, at + 4, length))
        .toString()
        .split('\n');
      at += 4 + length;
      for (const line of lines) if (line !== '') yield readJson<ListedEntry>(line);
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
