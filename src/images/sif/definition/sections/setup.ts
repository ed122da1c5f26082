import {
  type DefinitionStage,
  isBlankOrComment,
  type Line,
  refuseLine,
  shownText,
} from '../parser.ts';
import { type Script, scriptOf } from '../sections.ts';

/**
 * Returns the `%setup` of a stage, or undefined if it is empty. Apptainer runs it on the build machine. Commands that
 * only create, copy and download below the root of the image have the same effect in the image.
 * Throws a `Fault` with the line for anything else.
 */
export function setupScript(stage: DefinitionStage): Script | undefined {
  const script = scriptOf(stage, 'setup');
  const lines = stage.sections.filter(({ name }) => name === 'setup').flatMap(({ body }) => body);
  if (script === undefined || lines.every(isBlankOrComment)) return undefined;
  const first = lines[0] as Line;
  if (script.argument !== '') {
    refuseLine(first.number, `'%setup ${script.argument}' is not supported: write '%setup'`);
  }
  const commands = simpleCommands(simplified(script.text));
  if (typeof commands === 'number') refuse(lines[commands] ?? first);
  const values: Values = new Map();
  for (const command of commands) {
    if (!isHarmless(command, values)) refuse(lines[command.line] ?? first);
  }
  return script;
}

function refuse(line: Line): never {
  refuseLine(
    line.number,
    `${shownText(line.text)} in '%setup' would run on the build machine. Only mkdir, touch, cp, install, mv, rm, ln, chmod, echo, curl and wget below $APPTAINER_ROOTFS and /tmp are supported: use '%post'`,
  );
}

/** The target of a word: below the root of the image, below the working directory, or anywhere else. */
type Place = 'image' | 'context' | 'elsewhere';
type Values = Map<string, Place>;

/** The name of the working directory in the values: no variable has it. */
const workingDirectory = '.';

const rootVariable =
  /^\$(?:\{(?:APPTAINER|SINGULARITY)_ROOTFS\}|(?:APPTAINER|SINGULARITY)_ROOTFS\b)/;

/** Matches the commands for the directory of the definition file, which is the build context. */
const here =
  /(?:`|\$\()\s*(?:pwd|dirname\s+"?\$\{?(?:APPTAINER|SINGULARITY)_BUILDDEF\}?"?)\s*(?:`|\))|\$\{?PWD\}?/g;

function simplified(text: string): string {
  return text.replace(here, '.');
}

const keywords = new Set(['if', 'then', 'else', 'elif', 'fi', '!', 'do', 'done']);
const silent = new Set(['true', ':', 'pwd', 'exit', 'set', 'ls', 'test', '[', 'sleep']);

function isHarmless({ words }: ShellCommand, values: Values): boolean {
  const start = words.findIndex(({ text, isPlain }) => !(isPlain && keywords.has(text)));
  if (start < 0) return true;
  const rest = words.slice(start);
  const places = rest
    .filter(({ isTarget, text }) => isTarget && text !== '/dev/null')
    .map(word => placeOf(word, values));
  if (places.some(place => place !== 'image')) return false;
  const [command, ...all] = rest.filter(({ isTarget }) => !isTarget);
  if (command === undefined) return true;
  if (takesAssignments([command, ...all], values)) return true;
  // Words that are only printed may contain anything.
  if (command.text === 'echo' || command.text === 'printf') {
    return places.length === 0 || all.every(({ text }) => !text.includes('$'));
  }
  const paths = all.filter(({ text }) => !text.startsWith('-'));
  return mayRun(command.text, all, paths, places, values);
}

function mayRun(
  name: string,
  all: readonly ShellWord[],
  paths: readonly ShellWord[],
  places: readonly Place[],
  values: Values,
): boolean {
  const isInImage = (word: ShellWord) => placeOf(word, values) === 'image';
  if (silent.has(name)) return paths.every(word => isKnown(word, values));
  switch (name.replace(/^(?:\/usr)?\/bin\//, '')) {
    case 'cd': {
      const [directory, ...more] = paths;
      if (directory === undefined || more.length > 0 || !isKnown(directory, values)) return false;
      values.set(workingDirectory, placeOf(directory, values));
      return true;
    }
    case 'mkdir':
    case 'touch':
    case 'rm':
    case 'mv':
      return (
        paths.length > 0 && paths.filter(({ text }) => !/^[0-7]+$/.test(text)).every(isInImage)
      );
    case 'install': {
      if (all.some(({ text }) => /^-\w*d/.test(text)))
        return mayRun('mkdir', all, paths, places, values);
      const files = paths.filter(({ text }) => !/^[0-7]+$/.test(text));
      return mayRun('cp', all, files, places, values);
    }
    case 'ln': {
      // The first path of a symbolic link is only its text.
      const isSymbolic = all.some(({ text }) => /^-\w*s|^--symbolic$/.test(text));
      const [target, ...links] = paths;
      if (target === undefined || links.length !== 1 || !links.every(isInImage)) return false;
      return isSymbolic
        ? innerIsKnown(target.text.replace(rootVariable, ''), values)
        : isInImage(target);
    }
    case 'curl':
    case 'wget':
      return mayFetch(all, places, values);
    case 'chmod':
      return paths.length > 1 && paths.slice(1).every(isInImage);
    case 'cp':
      return (
        paths.length > 1 &&
        paths.slice(-1).every(isInImage) &&
        paths.every(word => isKnown(word, values))
      );
    default:
      return false;
  }
}

/** Returns true for a download to a place in the image. */
function mayFetch(all: readonly ShellWord[], places: readonly Place[], values: Values): boolean {
  let isWritten = places.length > 0 || values.get(workingDirectory) === 'image';
  for (const word of all) {
    const { text } = word;
    if (/^-[\w-]*$/.test(text)) continue;
    if (/^(?:https?|ftp):\/\//.test(text) && innerIsKnown(text, values)) continue;
    const file = { ...word, text: text.replace(/^--[\w-]+=/, '') };
    if (placeOf(file, values) !== 'image') return false;
    isWritten = true;
  }
  return isWritten;
}

/** Accepts `NAME=value ...` and `for NAME in value ...`. Returns false for other commands. */
function takesAssignments(words: readonly ShellWord[], values: Values): boolean {
  if (words[0]?.text === 'for') {
    const [, name, , ...items] = words;
    const places = new Set(items.map(item => placeOf(item, values)));
    values.set(name?.text ?? '', places.size === 1 ? ([...places][0] as Place) : 'elsewhere');
    return true;
  }
  const parts = words[0]?.text === 'export' ? words.slice(1) : words;
  const assigned = parts.map(({ text }) => /^(\w+)=([\s\S]*)$/.exec(text));
  if (assigned.some(match => match === null)) return false;
  for (const match of assigned) {
    const [, name = '', text = ''] = match ?? [];
    values.set(name, placeOf({ text, isPlain: true, isTarget: false }, values));
  }
  return true;
}

function isKnown(word: ShellWord, values: Values): boolean {
  return placeOf(word, values) !== 'elsewhere';
}

function placeOf({ text }: ShellWord, values: Values): Place {
  if (text.split('/').includes('..')) return 'elsewhere';
  const root = rootVariable.exec(text);
  const [found = '', braced, plain] = /^\$(?:\{(\w+)\}|(\w+))/.exec(text) ?? [];
  const inner = text.slice(root?.[0].length ?? found.length);
  if (!innerIsKnown(inner, values)) return 'elsewhere';
  if (root) return 'image';
  // %post of Apptainer has these directories of the build machine, and that of Sluice has those of the image.
  if (/^(?:\/var)?\/tmp\/[^/]/.test(text)) return 'image';
  if (found !== '') return values.get(braced ?? plain ?? '') ?? 'elsewhere';
  return /^[/~\\$]/.test(text) ? 'elsewhere' : (values.get(workingDirectory) ?? 'context');
}

/** Variables after the beginning of a word must be the script's own. */
function innerIsKnown(text: string, values: Values): boolean {
  return [...text.matchAll(/\$(?:\{(\w+)\}|(\w*))/g)].every(([, braced, plain]) =>
    values.has(braced ?? plain ?? ''),
  );
}

/** A word of a shell script, with its quotes taken off. */
interface ShellWord {
  readonly text: string;
  /** False where a quote or backslash keeps the shell from reading the word as a keyword or assignment. */
  readonly isPlain: boolean;
  /** The word after `>`, `>>`, `1>` or `2>`, to which the command writes. */
  readonly isTarget: boolean;
}

/** A simple command of a script. */
interface ShellCommand {
  readonly words: readonly ShellWord[];
  /** Counted from 0. */
  readonly line: number;
}

/**
 * Returns the simple commands of a shell script that consists of words, quotes, variables, lists, and output to files.
 * Otherwise returns the line, counted from 0, of the first other element.
 * Source: POSIX.1-2017, Shell 2.3.
 */
function simpleCommands(script: string): readonly ShellCommand[] | number {
  const commands: ShellCommand[] = [];
  let words: ShellWord[] = [];
  let isTarget = false;
  let line = 0;
  const token =
    /(\n)|([ \t\r]+|\\\n|#[^\n]*|[12]?>&[12](?=[\s;]|$))|(&&|\|\||;)|([12]?>>?)|((?:\$\{\w+\}|\\[^\n]|'[^']*'|"(?:\\[\s\S]|[^"\\])*"|[^\s;&|<>()`{}'"\\#]|(?<=\S)#)+)/y;
  while (token.lastIndex < script.length) {
    const match = token.exec(script);
    if (match === null) return line;
    const [whole, newline, blank, separator, output, word] = match;
    if (newline ?? separator) {
      if (isTarget) return line;
      if (words.length > 0) commands.push({ words, line });
      words = [];
    } else if (output !== undefined) {
      isTarget = true;
    } else if (word !== undefined) {
      if (/\$\(|`/.test(word)) return line;
      words.push({ text: unquoted(word), isPlain: !/["'\\]/.test(word), isTarget });
      isTarget = false;
    } else if (blank === undefined) {
      return line;
    }
    line += whole.split('\n').length - 1;
  }
  if (isTarget) return line;
  if (words.length > 0) commands.push({ words, line });
  return commands;
}

function unquoted(word: string): string {
  return word.replace(
    /\\([\s\S])|'([^']*)'|"((?:\\[\s\S]|[^"\\])*)"/g,
    (_, escaped?: string, single?: string, double?: string) =>
      escaped ?? single?.replaceAll('$', '\\$') ?? double?.replace(/\\(["\\`])/g, '$1') ?? '',
  );
}
