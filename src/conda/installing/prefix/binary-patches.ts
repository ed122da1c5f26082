import { ArchiveProblem } from '../../archives/archive-checks.ts';
import {
  type ByteSource,
  chunkBytes,
  type EncodedPrefix,
  encodedPrefixes,
  offsetsOf,
  type Patch,
} from './patched-bytes.ts';

/** A string of a program that ends in a zero, and has placeholders in it. */
interface ZeroEnded {
  readonly offsets: readonly number[];
  /** Offset of the zero, or the end of the file. */
  readonly end: number;
  readonly isEnded: boolean;
  readonly prefix: EncodedPrefix;
}

/**
 * Returns the patches that replace the placeholder in the zero-ended strings of a binary file. What follows in a string
 * moves to its beginning, and zeros fill the gap, so that the size of the file stays the same. Throws `ArchiveProblem`
 * if the prefix is longer than the placeholder.
 */
export function binaryPatches(
  source: ByteSource,
  placeholder: string,
  prefix: string,
  limit: number,
): Patch[] {
  const prefixes = encodedPrefixes(placeholder, prefix);
  const offsets = offsetsOf(source, prefixes, limit);
  const candidates = prefixes.flatMap((encoded, index) =>
    stringsOf(source, encoded, offsets[index] ?? []),
  );
  return bestOf(candidates).flatMap(patchesOf);
}

function stringsOf(source: ByteSource, prefix: EncodedPrefix, all: readonly number[]): ZeroEnded[] {
  const { unit, placeholder } = prefix;
  const covered: number[] = new Array(unit).fill(0);
  const strings: ZeroEnded[] = [];
  for (const [index, first] of all.entries()) {
    if (first < (covered[first % unit] ?? 0)) continue;
    const zero = findZero(source, first + placeholder.length, unit);
    const end = zero ?? source.size;
    const offsets = [first];
    for (let next = index + 1; (all[next] ?? end) + placeholder.length <= end; next += 1) {
      offsets.push(all[next] ?? end);
    }
    covered[first % unit] = end;
    strings.push({ offsets, end, isEnded: zero !== undefined, prefix });
  }
  return strings;
}

/** Returns the offset of the first zero code unit, or undefined. */
function findZero(source: ByteSource, from: number, unit: number): number | undefined {
  // A chunk has whole code units.
  for (let at = from; at < source.size; at += chunkBytes) {
    const chunk = source.read(at, Math.min(chunkBytes, source.size - at));
    if (unit === 1) {
      const hit = chunk.indexOf(0);
      if (hit >= 0) return at + hit;
      continue;
    }
    for (let index = 0; index + unit <= chunk.length; index += unit) {
      if (chunk[index] === 0 && isZero(chunk, index, unit)) return at + index;
    }
  }
  return undefined;
}

function isZero(bytes: Buffer, start: number, length: number): boolean {
  for (let index = start; index < start + length; index += 1) if (bytes[index] !== 0) return false;
  return true;
}

/** Keeps the best of strings that overlap: those of another byte order are found one byte apart. */
function bestOf(candidates: readonly ZeroEnded[]): ZeroEnded[] {
  const ranked = candidates.toSorted((a, b) => rank(a) - rank(b) || startOf(a) - startOf(b));
  const kept: ZeroEnded[] = [];
  for (const candidate of ranked) {
    const start = startOf(candidate);
    const at = placeOf(start, kept);
    const earlier = kept[at - 1];
    const later = kept[at];
    if (earlier && start < earlier.end) continue;
    if (later && startOf(later) < candidate.end) continue;
    kept.splice(at, 0, candidate);
  }
  return kept;
}

/** Returns the index of the first string that starts after an offset. */
function placeOf(start: number, kept: readonly ZeroEnded[]): number {
  let [low, high] = [0, kept.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    const other = kept[middle];
    if (other && startOf(other) > start) high = middle;
    else low = middle + 1;
  }
  return low;
}

function startOf({ offsets }: ZeroEnded): number {
  return offsets[0] ?? 0;
}

function rank(string: ZeroEnded): number {
  const { encoding, unit } = string.prefix;
  if (encoding === 'utf-8') return 0;
  const isAligned = startOf(string) % unit === 0;
  return (isAligned ? 1 : 3) + (string.isEnded ? 0 : 1);
}

function patchesOf({
  offsets,
  end,
  prefix: { placeholder, prefix, encoding },
}: ZeroEnded): Patch[] {
  const gap = placeholder.length - prefix.length;
  if (gap < 0) {
    throw new ArchiveProblem(
      `has a binary file whose placeholder is shorter than the path of the environment (${encoding})`,
    );
  }
  const patches = offsets.map(start => ({ start, end: start + placeholder.length, bytes: prefix }));
  if (gap === 0) return patches;
  return [...patches, { start: end, end, bytes: Buffer.alloc(gap * offsets.length) }];
}
