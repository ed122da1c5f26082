import { posix } from 'node:path';
import { compileGlob, type Glob } from './glob.ts';

/** A line of a .dockerignore, or a path that a COPY names. */
export interface PathPattern {
  /** The normalized pattern, without its `!`. */
  readonly text: string;
  /** True for `!pattern`: it selects again what earlier patterns excluded. */
  readonly isException: boolean;
  /** True if it has no wildcard, except `**` at its end (`a/b`, `a/**`). */
  readonly isPlain: boolean;
  readonly matches: Glob;
}

/**
 * Parses a line of a .dockerignore as BuildKit does (github.com/moby/patternmatcher): `*` and `?` stop at `/`, `**`
 * does not, `[...]` is a class, `\` escapes the next character, and `!` marks an exception. Throws an `Error` for an
 * invalid pattern.
 */
export function parsePattern(line: string): PathPattern {
  return line.startsWith('!') ? patternOf(line.slice(1), true) : patternOf(line, false);
}

/** Parses a path that a COPY names. The syntax is the same, but `!` has no special meaning. */
export function parsePath(path: string): PathPattern {
  return patternOf(path, false);
}

function patternOf(written: string, isException: boolean): PathPattern {
  if (written === '') throw new Error("'!' alone is not a pattern");
  const text = withoutSlash(posix.normalize(written));
  return {
    text,
    isException,
    isPlain: !/[*[\]?^\\]/.test(text.replace(/\/?\*\*$/, '')),
    matches: compileGlob(text),
  };
}

/** True if a part of a path has a wildcard that is not escaped. */
export function hasWildcard(part: string): boolean {
  return /[*?[]/.test(part.replace(/\\./gs, ''));
}

function withoutSlash(path: string): string {
  return path.length > 1 && path.endsWith('/') ? path.slice(0, -1) : path;
}
