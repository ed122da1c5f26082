import { posix } from 'node:path';
import { refuseLine, shownText } from '../definition-error.ts';
import { isBlankOrComment, type Line, type Section } from '../parser.ts';

// Singularity copies a directory into an existing directory; COPY copies only its content. A Dockerfile cannot
// check whether a directory exists. These directories exist in nearly every image.
const usualDirectories = new Set([
  ...['/', '/bin', '/etc', '/home', '/lib', '/media', '/mnt', '/opt', '/root', '/sbin', '/srv'],
  ...['/tmp', '/usr', '/usr/bin', '/usr/lib', '/usr/local', '/usr/local/bin', '/usr/local/lib'],
  ...['/usr/local/share', '/usr/sbin', '/usr/share', '/var', '/var/lib', '/var/tmp'],
]);

/**
 * Returns the COPY instructions for a `%files` section. `stageName` returns the Dockerfile's name of an earlier
 * stage of the definition file, or undefined if there is none.
 * Throws a `Fault` with the line for a file of the build machine, and for a copy that COPY does not support.
 *
 * @param root the directory that destinations are relative to
 */
export function copyInstructions(
  section: Section,
  stageName: (name: string) => string | undefined,
  root = '/',
): readonly string[] {
  const from = readFrom(section, stageName);
  return section.body
    .filter(line => !isBlankOrComment(line))
    .map(line => copyInstruction(line, from, root));
}

function copyInstruction(line: Line, from: string | undefined, base: string): string {
  const [given, destination] = splitPaths(line);
  if (from === undefined && given.startsWith('/')) {
    refuseLine(
      line.number,
      `${shownText(given)} is a path on the build machine: put the file into the build context, and name its path in the context`,
    );
  }
  const flags = from === undefined ? [] : [`--from=${from}`];
  const copy = (source: string, target: string, ...more: readonly string[]) =>
    ['COPY', ...flags, ...more, JSON.stringify([source, target])].join(' ');
  const root = from === undefined ? '.' : '/';
  const source = posix.join(root, given).replace(/\/$/, '') || root;
  const target = posix.join(base, destination ?? '');
  if (source === root) return copy(source, target);
  if (/[*?[]/.test(source)) {
    // COPY recreates the path after the single dot at the target.
    const parent = posix.dirname(source);
    const isTop = destination === undefined || parent === root;
    const pattern = isTop ? source : `${parent}/./${posix.basename(source)}`;
    return copy(pattern, posix.join(target, '/'), '--parents');
  }
  if (destination === undefined) return copy(source, posix.join(base, source));
  const plain = target.replace(/(.)\/$/, '$1');
  const isDirectory =
    target !== plain || usualDirectories.has(plain) || isAppDirectory(plain, base);
  return copy(source, isDirectory ? posix.join(target, posix.basename(source)) : target);
}

/** Returns true for a directory of an app that exists before its files are copied. */
function isAppDirectory(path: string, base: string): boolean {
  return (
    base !== '/' && ['', '/bin', '/lib', '/scif', '/scif/env'].includes(path.slice(base.length))
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

/** Words are separated by blanks; quotes keep a word with blanks together. */
function splitPaths(line: Line): readonly [string, string | undefined] {
  const { number } = line;
  const text = line.text.trimEnd();
  const words: string[] = [];
  const word = /\s*(?:"([^"]*)"|'([^']*)'|([^\s"']+))(?=\s|$)/y;
  // Two paths at most: a long line is not read to its end.
  while (word.lastIndex < text.length && words.length <= 2) {
    const match = word.exec(text);
    if (match === null) refuseLine(number, `${shownText(text)} has quotes within a name`);
    const [, double, single, plain] = match;
    if (plain?.startsWith('#')) break;
    words.push(double ?? single ?? plain ?? '');
  }
  const [source, target, ...rest] = words;
  if (source === undefined || rest.length > 0) {
    refuseLine(number, `${shownText(text)} is not a source and a destination`);
  }
  for (const path of words) checkPath(path, number);
  return [source, target];
}

function checkPath(path: string, line: number): void {
  if (path === '') refuseLine(line, 'a path is empty');
  // These characters have a meaning in names for a shell and for COPY, and the meanings differ.
  if (/["'$`\\{}\p{Cc}]/u.test(path)) {
    refuseLine(
      line,
      `${shownText(path)} contains a character of the shell: write the path without it`,
    );
  }
  if (path.split('/').includes('..')) {
    refuseLine(line, `${shownText(path)} contains '..': write the path without it`);
  }
}
