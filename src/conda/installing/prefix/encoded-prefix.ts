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
    ...{ encoding, unit },
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
 * Returns the offsets of the placeholder in one encoding, from the beginning of the file on, without overlaps. Throws
 * `ArchiveProblem` if there are more than `limit`.
 */
export function offsetsOf(
  source: ByteSource,
  { placeholder }: EncodedPrefix,
  limit: number,
): number[] {
  const { length } = placeholder;
  const offsets: number[] = [];
  for (let at = 0; at + length <= source.size; ) {
    const chunk = source.read(at, Math.min(chunkBytes + length - 1, source.size - at));
    let from = 0;
    for (let hit = chunk.indexOf(placeholder); hit >= 0; hit = chunk.indexOf(placeholder, from)) {
      offsets.push(at + hit);
      from = hit + length;
    }
    if (offsets.length > limit) {
      throw new ArchiveProblem(`has a file with more than ${limit} occurrences of its prefix`);
    }
    at += Math.max(from, chunk.length - length + 1);
  }
  return offsets;
}
