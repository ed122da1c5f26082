import { posix } from 'node:path';
import { compileGlob, type Glob } from './glob.ts';

/** A line of a .dockerignore, or a path that a COPY names. */
export interface PathPattern {
  /** The pattern without its `!`, clean. */
  readonly text: string;
  /** True for `!pattern`: what it matches is taken back. */
  readonly isException: boolean;
  /** True when it holds no wildcard, but perhaps at its end (`a/b`, `a/**`). */
  readonly isPlain: boolean;
  readonly matches: Glob;
}

/**
 * Reads a line of a .dockerignore as BuildKit does (github.com/moby/patternmatcher): `*` and `?` stop at
 * `/`, `**` does not, `[...]` is a class, `\` takes the next character as it is, and what follows `!` is
 * taken back. Throws an `Error` for one that cannot be read.
 */
export function parsePattern(line: string): PathPattern {
  return line.startsWith('!') ? patternOf(line.slice(1), true) : patternOf(line, false);
}

/** The same for a path that a COPY names: `!` is nothing special in it. */
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

/** True when a part of a path holds a wildcard that is not escaped. */
export function hasWildcard(part: string): boolean {
  return /[*?[]/.test(part.replace(/\\./gs, ''));
}

function withoutSlash(path: string): string {
  return path.length > 1 && path.endsWith('/') ? path.slice(0, -1) : path;
}
