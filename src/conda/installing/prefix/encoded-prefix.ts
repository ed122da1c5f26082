import { ArchiveProblem } from '../../archives/archive-problem.ts';
import { type ByteSource, chunkBytes } from './patched-bytes.ts';

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
        const hit = find(chunk, placeholder, Math.max(0, search.from - at));
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
function find(bytes: Buffer, needle: Buffer, from: number): number {
  const lead = needle.findIndex(byte => byte !== 0);
  if (lead <= 0) return bytes.indexOf(needle, from);
  const rest = needle.subarray(lead);
  for (let at = from + lead; ; at += 1) {
    at = bytes.indexOf(rest, at);
    if (at < 0) return -1;
    if (bytes.subarray(at - lead, at).every(byte => byte === 0)) return at - lead;
  }
}
