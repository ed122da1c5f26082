import { ArchiveProblem } from '../../archives/archive-checks.ts';
import {
  type ByteSource,
  chunkBytes,
  encodedPrefixes,
  type Occurrence,
  offsetsOf,
  type Patch,
} from './patched-bytes.ts';

/** The first line of a script is not longer. */
const maxLineBytes = 1024 * 1024;
const lineEnd = 0x0a;

/**
 * Returns the patches that replace the placeholder of a text file by the prefix. As in rattler, texts in UTF-16 and
 * UTF-32 are patched as well, and a shebang that Linux would not run is rewritten.
 */
export function textPatches(
  source: ByteSource,
  placeholder: string,
  prefix: string,
  limit: number,
): Patch[] {
  const prefixes = encodedPrefixes(placeholder, prefix);
  if (prefixes.length === 0) return [];
  const shebang = shebangPatch(source, placeholder, prefix);
  const from = shebang?.end ?? 0;
  const offsets = offsetsOf(source, prefixes, limit);
  const occurrences = prefixes
    .flatMap((encoded, index) =>
      (offsets[index] ?? []).map(offset => ({ offset, prefix: encoded })),
    )
    .sort((a, b) => a.offset - b.offset);
  const patches = withoutOverlaps(occurrences)
    .filter(({ offset }) => offset >= from)
    .map(({ offset, prefix: encoded }) => ({
      start: offset,
      end: offset + encoded.placeholder.length,
      bytes: encoded.prefix,
    }));
  return shebang === undefined ? patches : [shebang, ...patches];
}

function shebangPatch(source: ByteSource, placeholder: string, prefix: string): Patch | undefined {
  if (source.size < 2 || source.read(0, 2).toString('latin1') !== '#!') return undefined;
  let end = source.size;
  for (let at = 0; at < source.size; at += chunkBytes) {
    const hit = source.read(at, Math.min(chunkBytes, source.size - at)).indexOf(lineEnd);
    if (hit < 0) continue;
    end = at + hit;
    break;
  }
  if (end > maxLineBytes) throw new ArchiveProblem('has a script whose first line exceeds 1 MiB');
  const line = source.read(0, end).toString();
  const withEnd = Math.min(end + 1, source.size);
  const bytes = Buffer.from(
    replaceShebang(line, placeholder, prefix) + (withEnd > end ? '\n' : ''),
  );
  return { start: 0, end: withEnd, bytes };
}

/**
 * An ASCII text in UTF-16 is found in both byte orders, one byte apart. Of two that overlap, UTF-8 wins, then the one at
 * a whole code unit, then the earlier one.
 */
function withoutOverlaps(sorted: readonly Occurrence[]): Occurrence[] {
  const kept: Occurrence[] = [];
  for (const candidate of sorted) {
    const last = kept.at(-1);
    if (last && candidate.offset < last.offset + last.prefix.placeholder.length) {
      if (rankOf(candidate) >= rankOf(last)) continue;
      kept.pop();
    }
    kept.push(candidate);
  }
  return kept;
}

function rankOf({ offset, prefix: { encoding, unit } }: Occurrence): number {
  if (encoding === 'utf-8') return 0;
  return offset % unit === 0 ? 1 : 2;
}

const maxShebangBytes = 127;
// Path of the interpreter, and its options.
const shebangPattern = /^#! *(\/(?:\\ |[^ \n\r\t])*)(.*)/s;
const pythonPattern = /^python(?:\d+(?:\.\d+)?)?$/;

/**
 * Returns the first line of a script with its prefix replaced. Linux runs neither a shebang longer than 127 bytes nor one
 * with a blank in the path: those find their interpreter by `/usr/bin/env`, and Python's by a shell, as rattler does.
 *
 * @param line begins with `#!`; without its line end
 */
export function replaceShebang(line: string, placeholder: string, prefix: string): string {
  if (prefix.includes(' ')) {
    if (!line.includes(placeholder)) return line;
    return throughEnv(line).replaceAll(placeholder, () => prefix);
  }
  const replaced = line.replaceAll(placeholder, () => prefix);
  return Buffer.byteLength(replaced) <= maxShebangBytes ? replaced : throughEnv(replaced);
}

function throughEnv(line: string): string {
  const match = shebangPattern.exec(line);
  if (match === null) return line;
  const [, path = '', options = ''] = match;
  const program = path.slice(path.lastIndexOf('/') + 1);
  if (pythonPattern.test(program)) return shellShebang(path, options);
  return `#!/usr/bin/env ${program}${options}`;
}

/** Returns the first two lines of a Python script whose interpreter a shell starts. */
export function shellShebang(path: string, options = ''): string {
  return `#!/bin/sh\n'''exec' "${path}"${options} "$0" "$@" #'''`;
}

/** Returns the shebang of a Python script for an interpreter. */
export function pythonShebang(path: string): string {
  const isValid = Buffer.byteLength(path) + 2 <= maxShebangBytes && !path.includes(' ');
  return isValid ? `#!${path}` : shellShebang(path);
}
