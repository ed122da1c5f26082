import { ArchiveProblem } from '../../archives/archive-checks.ts';

/** Bytes that are read in any order: of a file of any size. */
export interface ByteSource {
  /** Bytes. */
  readonly size: number;
  /** Returns the bytes in a range, which must be inside: a view that is valid until the next call, not to be changed. */
  read(offset: number, length: number): Buffer;
}

const wholeBytes = 1024 * 1024;

/** Bytes to read at once. */
export const chunkBytes = 128 * 1024;

/** Returns the same bytes, those of a small file read once. */
export function readOnce(source: ByteSource): ByteSource {
  const { size } = source;
  if (size > wholeBytes) return source;
  const bytes = source.read(0, size);
  return { size, read: (offset, length) => bytes.subarray(offset, offset + length) };
}

/** A part of a file that other bytes replace. */
export interface Patch {
  readonly start: number;
  readonly end: number;
  readonly bytes: Buffer;
}

/** Returns the size of a file with its patches, in bytes. */
export function patchedSize(size: number, patches: readonly Patch[]): number {
  return patches.reduce((sum, { start, end, bytes }) => sum + bytes.length - (end - start), size);
}

/** Yields the bytes of a file with its patches, which are sorted and do not overlap: views, valid until the next one. */
export function* patchedChunks(source: ByteSource, patches: readonly Patch[]): Generator<Buffer> {
  let at = 0;
  for (const { start, end, bytes } of [...patches, endOf(source)]) {
    while (at < start) {
      const length = Math.min(chunkBytes, start - at);
      yield source.read(at, length);
      at += length;
    }
    if (bytes.length > 0) yield bytes;
    at = end;
  }
}

function endOf({ size }: ByteSource): Patch {
  return { start: size, end: size, bytes: Buffer.alloc(0) };
}

/** The placeholder and the prefix in one encoding, as they are in a file. */
export interface EncodedPrefix {
  readonly encoding: string;
  /** Bytes of a code unit, and of the zero that ends a string. */
  readonly unit: number;
  readonly placeholder: Buffer;
  readonly prefix: Buffer;
}

/** A placeholder in a file. */
export interface Occurrence {
  readonly offset: number;
  readonly prefix: EncodedPrefix;
}

const encoders: readonly (readonly [string, number, (text: string) => Buffer])[] = [
  ['utf-8', 1, text => Buffer.from(text)],
  ['utf-16-le', 2, text => Buffer.from(text, 'utf16le')],
  ['utf-16-be', 2, text => Buffer.from(text, 'utf16le').swap16()],
  ['utf-32-le', 4, utf32],
  ['utf-32-be', 4, text => utf32(text).swap32()],
];

/** Returns the placeholder and the prefix in all encodings in which rattler replaces them; UTF-8 first. */
export function encodedPrefixes(placeholder: string, prefix: string): EncodedPrefix[] {
  if (placeholder === '') return [];
  return encoders.map(([encoding, unit, encode]) => ({
    encoding,
    unit,
    placeholder: encode(placeholder),
    prefix: encode(prefix),
  }));
}

function utf32(text: string): Buffer {
  const points = [...text].map(character => character.codePointAt(0) ?? 0);
  const bytes = Buffer.alloc(points.length * 4);
  for (const [index, point] of points.entries()) bytes.writeUInt32LE(point, index * 4);
  return bytes;
}

/**
 * Returns the offsets of the placeholder in each encoding, from the beginning of the file on, without overlaps. Throws
 * `ArchiveProblem` if there are more than `limit`.
 */
export function offsetsOf(
  source: ByteSource,
  prefixes: readonly EncodedPrefix[],
  limit: number,
): number[][] {
  const longest = Math.max(0, ...prefixes.map(({ placeholder }) => placeholder.length));
  const searches = prefixes.map(({ placeholder }) => {
    const offsets: number[] = [];
    return { placeholder, from: 0, offsets };
  });
  for (let at = 0; at < source.size; at += chunkBytes) {
    // What begins in the chunk may end behind it.
    const chunk = source.read(at, Math.min(chunkBytes + longest - 1, source.size - at));
    for (const search of searches) {
      const { placeholder, offsets } = search;
      for (;;) {
        const hit = nextOffset(chunk, placeholder, Math.max(0, search.from - at));
        if (hit < 0 || hit >= chunkBytes) break;
        offsets.push(at + hit);
        search.from = at + hit + placeholder.length;
      }
      if (offsets.length > limit) {
        throw new ArchiveProblem(`has a file with more than ${limit} occurrences of its prefix`);
      }
    }
  }
  return searches.map(({ offsets }) => offsets);
}

/**
 * Returns the offset of the needle, or -1. Programs have so many zeros that a needle is looked for from its first byte on that
 * is none.
 */
function nextOffset(bytes: Buffer, needle: Buffer, from: number): number {
  const lead = needle.findIndex(byte => byte !== 0);
  if (lead <= 0) return bytes.indexOf(needle, from);
  const rest = needle.subarray(lead);
  for (let at = from + lead; ; at += 1) {
    at = bytes.indexOf(rest, at);
    if (at < 0) return -1;
    if (bytes.subarray(at - lead, at).every(byte => byte === 0)) return at - lead;
  }
}
