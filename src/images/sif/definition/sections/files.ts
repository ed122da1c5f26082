import { posix } from 'node:path';
import type { Grow } from '../arguments.ts';
import { isBlankOrComment, type Line, refuseLine, type Section, shownText } from '../parser.ts';

/** Copies of one section: all are from the build context, or all from one earlier stage. */
export interface FileCopies {
  /** The Dockerfile's name of the stage; undefined for the build context. */
  readonly from: string | undefined;
  /** The directory that targets are relative to. */
  readonly root: string;
  readonly lines: readonly FileCopy[];
}

interface FileCopy {
  /** Line in the definition file, counted from 1. */
  readonly line: number;
  /** A path or a pattern of the shell. Begins with a slash in a stage, and without one in the build context. */
  readonly source: string;
  /** An absolute path; undefined for the path of the source. */
  readonly target: string | undefined;
}

/**
 * Returns the copies of a `%files` section. `stageName` returns the Dockerfile's name of an earlier stage of the
 * definition file, or undefined if there is none. Throws a `Fault` with the line for a file of the build machine, and
 * for a name that means something else to a shell.
 *
 * @param grow counts the characters of names that braces stand for
 * @param root the directory that targets are relative to
 */
export function fileCopies(
  section: Section,
  stageName: (name: string) => string | undefined,
  grow: Grow,
  root = '/',
): FileCopies {
  const from = readFrom(section, stageName);
  const lines = section.body
    .filter(line => !isBlankOrComment(line))
    .flatMap(line => lineCopies(line, from, root, grow));
  return { from, root, lines };
}

function lineCopies(
  line: Line,
  from: string | undefined,
  root: string,
  grow: Grow,
): readonly FileCopy[] {
  const { number } = line;
  const [first, destination] = splitPaths(line);
  const given = braceWords(first);
  if (given === undefined) {
    refuseLine(number, `${shownText(first)} has braces that stand for too many names: write fewer`);
  }
  const target = destination === undefined ? undefined : posix.join(root, destination);
  return given.map(path => {
    if (given.length > 1) grow(path.length + (target?.length ?? 0), number);
    checkPath(path, number);
    if (from === undefined && /^(?:\/|~(?:\/|$))/.test(path)) {
      refuseLine(
        number,
        `${shownText(path)} is a path on the build machine: put the file into the build context, and name its path in the context`,
      );
    }
    // Shells differ in [^x], and agree on [!x].
    const source = (from === undefined ? path : posix.join('/', path)).replaceAll('[^', '[!');
    return { line: number, source, target };
  });
}

/**
 * Returns COPY instructions for a stage that begins with nothing, where no shell can run: its directories are those that
 * earlier lines made. Throws a `Fault` with the line where COPY and Apptainer differ.
 */
export function copiesToNothing(sections: readonly FileCopies[]): readonly string[] {
  const directories = new Set(['/']);
  const targets = new Set<string>();
  return sections.flatMap(({ from, root, lines }) =>
    lines.map(({ line, source, target: given }) => {
      if (/[*?[]/.test(source)) {
        refuseLine(
          line,
          `${shownText(source)} is a pattern: with 'Bootstrap: scratch' name the file`,
        );
      }
      const plain = source.replace(/(.)\/$/, '$1');
      const isContext = from === undefined && posix.normalize(plain) === '.';
      let target = given ?? posix.join(root, source);
      const directory = target.replace(/(.)\/$/, '$1');
      if (!isContext && (target !== directory || directories.has(directory))) {
        target = posix.join(directory, posix.basename(plain));
      } else if (!isContext && targets.has(directory)) {
        refuseLine(
          line,
          `an earlier line made ${shownText(directory)}: if that is a directory, write a '/' after it`,
        );
      }
      targets.add(target);
      for (let path = posix.dirname(target); !directories.has(path); path = posix.dirname(path)) {
        directories.add(path);
      }
      const flags = from === undefined ? '' : `--from=${from} `;
      return `COPY ${flags}${JSON.stringify([plain, target])}`;
    }),
  );
}

function readFrom(
  { argument, line }: Section,
  stageName: (name: string) => string | undefined,
): string | undefined {
  if (argument === '') return undefined;
  const [word, name, ...rest] = argument.split(/\s+/);
  if (word !== 'from' || name === undefined || rest.length > 0) {
    refuseLine(line, `${shownText(`%files ${argument}`)} is not '%files' or '%files from STAGE'`);
  }
  const known = stageName(name);
  if (known === undefined) {
    refuseLine(
      line,
      `${shownText(name)} is not a stage before this one: name that stage with 'Stage:'`,
    );
  }
  return known;
}

/** Matches the directory of the definition file, which is the build context. */
const workingDirectory = /^(?:`pwd`|\$\(pwd\)|\$PWD(?!\w)|\$\{PWD\})/;

/** Words are separated by blanks; quotes keep a word with blanks together. */
function splitPaths(line: Line): readonly [string, string | undefined] {
  const { number } = line;
  const text = line.text.trimEnd();
  const words: string[] = [];
  const word = /\s*(?:"([^"]*)"|'([^']*)'|([^\s"']+))(?=\s|$)/y;
  // Apptainer ignores what follows the two paths.
  while (word.lastIndex < text.length && words.length < 2) {
    const match = word.exec(text);
    if (match === null) refuseLine(number, `${shownText(text)} has quotes within a name`);
    const [, double, single, plain] = match;
    if (plain?.startsWith('#')) break;
    words.push(double ?? single ?? plain ?? '');
  }
  const [first, target] = words;
  if (first === undefined) {
    refuseLine(number, `${shownText(text)} is not a source and a destination`);
  }
  const source = first.replace(workingDirectory, '.');
  if (source !== first && target === undefined) {
    refuseLine(number, `${shownText(first)} has no destination: write one after it`);
  }
  if (target !== undefined) checkPath(target, number);
  return [source, target];
}

function checkPath(path: string, line: number): void {
  if (path === '') refuseLine(line, 'a path is empty');
  // These characters have a meaning in names for a shell and for COPY, and the meanings differ.
  if (/["'$`\\\p{Cc}]/u.test(path)) {
    refuseLine(
      line,
      `${shownText(path)} contains a character of the shell: write the path without it`,
    );
  }
  if (path.split('/').includes('..')) {
    refuseLine(line, `${shownText(path)} contains '..': write the path without it`);
  }
}

/** Words that one word may become. */
const mostWords = 1000;
/** The length of a path in Linux. */
const longestWord = 4096;

/**
 * Returns the words that a shell makes of the braces of a word, before it expands patterns: `a{b,c}` is `ab` and `ac`, and
 * `{1..3}` is `1`, `2` and `3`. Other braces stay. Returns undefined for too many or too long words, and for ranges with
 * a step or leading zeros.
 * Source: apptainer 1.4.5, compared with its results.
 */
function braceWords(word: string): readonly string[] | undefined {
  if (!word.includes('{')) return [word];
  if (word.length > longestWord) return undefined;
  const ends = endsOf(word);
  for (const [start, end] of [...ends].sort(([one], [other]) => one - other)) {
    const parts = partsOf(word, start, end, ends);
    if (parts === 'none') continue;
    const tails = braceWords(word.slice(end + 1));
    const middles = parts === 'unknown' ? [undefined] : parts.map(braceWords);
    if (tails === undefined || middles.includes(undefined)) return undefined;
    const inner = middles.flatMap(words => words ?? []);
    if (inner.length * tails.length > mostWords) return undefined;
    const head = word.slice(0, start);
    return inner.flatMap(middle => tails.map(tail => head + middle + tail));
  }
  return [word];
}

/** Returns the position of the closing brace of each opening one. */
function endsOf(word: string): ReadonlyMap<number, number> {
  const ends = new Map<number, number>();
  const open: number[] = [];
  for (let at = 0; at < word.length; at += 1) {
    if (word[at] === '{') open.push(at);
    const start = word[at] === '}' ? open.pop() : undefined;
    if (start !== undefined) ends.set(start, at);
  }
  return ends;
}

/** Returns the alternatives between two braces; `none` for braces that stay. */
function partsOf(
  word: string,
  start: number,
  end: number,
  ends: ReadonlyMap<number, number>,
): readonly string[] | 'none' | 'unknown' {
  const parts: string[] = [];
  let from = start + 1;
  for (let at = from; at < end; at += 1) {
    at = ends.get(at) ?? at;
    if (word[at] !== ',') continue;
    parts.push(word.slice(from, at));
    from = at + 1;
  }
  if (parts.length > 0) return [...parts, word.slice(from, end)];
  return rangeOf(word.slice(start + 1, end));
}

function rangeOf(text: string): readonly string[] | 'none' | 'unknown' {
  const [, first, last] = /^(-?\d{1,9})\.\.(-?\d{1,9})$/.exec(text) ?? [];
  if (first !== undefined && last !== undefined) {
    const bounds = [first, last].map(Number);
    if (bounds.map(String).join() !== `${first},${last}`) return 'unknown';
    return wordsBetween(bounds, String);
  }
  const [, one, other] =
    /^([A-Z])\.\.([A-Z])$|^([a-z])\.\.([a-z])$/.exec(text)?.filter(Boolean) ?? [];
  if (one !== undefined && other !== undefined) {
    return wordsBetween(
      [one, other].map(letter => letter.charCodeAt(0)),
      code => String.fromCharCode(code),
    );
  }
  return /^(?:-?\d+|[A-Za-z])\.\.(?:-?\d+|[A-Za-z])(?:\.\.-?\d+)?$/.test(text) ? 'unknown' : 'none';
}

function wordsBetween(
  [first = 0, last = 0]: readonly number[],
  show: (value: number) => string,
): readonly string[] | 'unknown' {
  const count = Math.abs(last - first) + 1;
  if (count > mostWords) return 'unknown';
  const step = first < last ? 1 : -1;
  return Array.from({ length: count }, (_, at) => show(first + step * at));
}
