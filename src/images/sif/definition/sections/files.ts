import { posix } from 'node:path';
import type { Grow } from '../arguments.ts';
import { refuseLine, shownText } from '../definition-error.ts';
import { isBlankOrComment, type Line, type Section } from '../parser.ts';
import { braceWords } from './brace-words.ts';

/** Copies of one section: all are from the build context, or all from one earlier stage. */
export interface FileCopies {
  /** The Dockerfile's name of the stage; undefined for the build context. */
  readonly from: string | undefined;
  /** The directory that targets are relative to. */
  readonly root: string;
  readonly lines: readonly FileCopy[];
}

export interface FileCopy {
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
const here = /^(?:`pwd`|\$\(pwd\)|\$PWD(?!\w)|\$\{PWD\})/;

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
  const source = first.replace(here, '.');
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
