import { Fault } from '../../../foundation/fault.ts';
import { trim, trimEnd } from '../../../foundation/text.ts';
import { LimitError, WordError } from './words/shell-pattern.ts';
import { isBlank, splitWords, trimBlanks, withoutIndent } from './words/shell-words.ts';

/** An instruction of a Dockerfile, its lines joined. */
export interface Instruction extends Flagged {
  /** In upper case. */
  readonly name: string;
  /** The line that it starts in, counted from 1. */
  readonly line: number;
}

interface ParsedDockerfile {
  readonly instructions: readonly Instruction[];
  /** The escape character that the file specifies, usually a backslash. */
  readonly escapeMark: string;
}

// Far more than the layers that an image can have.
const maxInstructions = 2000;

const mayHaveDocuments = new Set(['ADD', 'COPY', 'RUN']);

/**
 * Splits a Dockerfile into its instructions; handles directives, comments, continued lines and here-documents. Throws a
 * `Fault` with the line for an invalid or repeated directive, for an unterminated here-document, and for more than 2000
 * instructions. Source: Dockerfile reference, Format, Parser directives and Here-Documents.
 */
export function parseDockerfile(text: string): ParsedDockerfile {
  const lines = text.replace(/^\ufeff/, '').split('\n');
  if (lines.at(-1) === '') lines.pop();
  const { escapeMark, end } = readDirectives(lines);
  const instructions: Instruction[] = [];
  let position = end;
  while (position < lines.length) {
    const start = position;
    const joined = joinLines(lines, position, escapeMark);
    position = joined.next;
    if (joined.text === undefined) continue;
    const instruction = parseInstruction(joined.text, escapeMark, start + 1);
    instructions.push(instruction);
    if (instructions.length > maxInstructions) {
      malformed(start + 1, `it has more than ${maxInstructions} instructions`);
    }
    for (const document of documentsOf(instruction, joined.text, escapeMark)) {
      position = skipDocument(lines, position, document, start + 1);
    }
  }
  return { instructions, escapeMark };
}

/** Reads the directives at the start; any other line ends them. */
function readDirectives(lines: readonly string[]): { escapeMark: string; end: number } {
  let escapeMark = '\\';
  const seen = new Set<string>();
  for (const [position, raw] of lines.entries()) {
    const { key, value } = parseDirective(withoutIndent(withoutEnd(raw)), '#') ?? {};
    if (key === undefined || value === undefined) return { escapeMark, end: position };
    if (seen.has(key)) malformed(position + 1, `the directive '${key}' is given twice`);
    seen.add(key);
    if (key !== 'escape') continue;
    if (value !== '\\' && value !== '`') {
      malformed(position + 1, "the escape character can only be '\\' or '`'");
    }
    escapeMark = value;
  }
  return { escapeMark, end: lines.length };
}

/** Returns the instruction that starts here, with its continuation lines; no text for a comment or blank line. */
function joinLines(
  lines: readonly string[],
  start: number,
  escapeMark: string,
): { text?: string; next: number } {
  let next = start + 1;
  let part = withoutIndent(withoutEnd(lines[start] ?? ''));
  if (part === '' || part.startsWith('#')) return { next };
  let text = '';
  for (;;) {
    const end = continuedAt(part, escapeMark);
    text += end === undefined ? part : part.slice(0, end);
    if (end === undefined) return { text, next };
    // Comments and empty lines do not end a continued instruction.
    do part = withoutEnd(lines[next++] ?? '');
    while (next <= lines.length && /^(?:#|$)/.test(withoutIndent(part)));
    if (next > lines.length) return { text, next };
  }
}

/** Returns the position of the escape character that continues a line; undefined when the line is not continued. */
function continuedAt(line: string, escapeMark: string): number | undefined {
  const end = trimEnd(line, character => character === ' ' || character === '\t').length - 1;
  return line[end] === escapeMark && line[end - 1] !== escapeMark ? end : undefined;
}

function withoutEnd(line: string): string {
  return trimEnd(line, character => character === '\r' || character === '\n');
}

/** Parses an instruction whose continued lines are joined. Its name becomes upper case, and its flags are split off. */
export function parseInstruction(text: string, escapeMark: string, line: number): Instruction {
  const [, name = '', rest = ''] =
    /^([^\t\v\f\r ]*)(?:[\t\v\f\r ]+(.*))?$/s.exec(trimBlanks(text)) ?? [];
  const flagged = splitFlags(rest, escapeMark);
  return { name: name.toUpperCase(), line, flags: flagged.flags, rest: trimBlanks(flagged.rest) };
}

interface HereDocument {
  readonly end: string;
  /** True if tabs before its end marker are ignored. */
  readonly isIndented: boolean;
}

function documentsOf(
  instruction: Instruction,
  text: string,
  escapeMark: string,
): readonly HereDocument[] {
  const inner =
    instruction.name === 'ONBUILD'
      ? parseInstruction(instruction.rest, escapeMark, instruction.line)
      : instruction;
  if (!mayHaveDocuments.has(inner.name) || !text.includes('<<')) return [];
  if (jsonList(inner.rest, inner.line) !== undefined) return [];
  return wordsOf(text, instruction.line)
    .map(word => documentOf(word, instruction.line))
    .filter(document => document !== undefined);
}

// Returns the words of an instruction. Words that cannot be separated mean that it has no here-documents.
function wordsOf(text: string, line: number): readonly string[] {
  try {
    const all = { keepQuotes: true, keepEscapes: true, keepUnset: true };
    return splitWords(text, { escapeMark: '\\', variables: new Map(), ...all });
  } catch (error) {
    if (error instanceof LimitError) malformed(line, error.message);
    if (error instanceof WordError) return [];
    throw error;
  }
}

function documentOf(word: string, line: number): HereDocument | undefined {
  const [, dash = '', text = ''] = /^\d*<<(-?)([^<]*)$/.exec(word) ?? [];
  const name = text.replace(/^[\t\n\f\r ]+/, '');
  if (name === '') return undefined;
  try {
    const words = splitWords(name, { escapeMark: '\\', variables: new Map(), keepUnset: true });
    const [end] = words;
    if (end === undefined || words.length > 1) return undefined;
    return { end, isIndented: dash !== '' };
  } catch (error) {
    if (error instanceof WordError) malformed(line, `the here-document's name: ${error.message}`);
    throw error;
  }
}

function skipDocument(
  lines: readonly string[],
  start: number,
  { end, isIndented }: HereDocument,
  line: number,
): number {
  for (let position = start; position < lines.length; position += 1) {
    const text = withoutEnd(lines[position] ?? '');
    if ((isIndented ? text.replace(/^\t+/, '') : text) === end) return position + 1;
  }
  malformed(line, `the here-document '${end}' has no end`);
}

/**
 * Returns the arguments as a JSON list of texts; undefined when they are not a list. Throws a `Fault` for a list with
 * other elements.
 */
export function jsonList(rest: string, line: number): readonly string[] | undefined {
  if (!withoutIndent(rest).startsWith('[')) return undefined;
  let list: unknown;
  try {
    list = JSON.parse(rest);
  } catch {
    return undefined;
  }
  if (!Array.isArray(list)) return undefined;
  if (list.some(item => typeof item !== 'string')) {
    malformed(line, 'a JSON list of arguments contains something other than text');
  }
  return list;
}

/** Returns the words of FROM, which blanks separate. Quotes are part of them. */
export function plainWords(rest: string): readonly string[] {
  return rest === '' ? [] : rest.split(/[\t\v\f\r ]+/);
}

/** Returns the words of ARG. Quotes join words and are kept. */
export function quotedWords(rest: string, escapeMark: string): readonly string[] {
  const words: string[] = [];
  const characters = [...rest];
  let word = '';
  let quote = '';
  let isWord = false;
  const finish = () => {
    if (isWord || word !== '') words.push(word);
    word = '';
    isWord = false;
  };
  for (let position = 0; position < characters.length; position += 1) {
    const character = characters[position] as string;
    if (quote === '' && isBlank(character)) {
      finish();
      continue;
    }
    if (character === escapeMark && quote !== "'") {
      const escaped = characters[++position];
      if (escaped === undefined) break;
      word += character + escaped;
      continue;
    }
    if (quote === '' && (character === "'" || character === '"')) {
      quote = character;
      isWord = true;
    } else if (character === quote) quote = '';
    word += character;
  }
  finish();
  return words;
}

/** The options of an instruction, each `--name=value` without quotes, and the text after them. */
interface Flagged {
  readonly flags: readonly string[];
  readonly rest: string;
}

/**
 * Splits the options from the arguments of an instruction. Quotes and escape characters join text; `--` ends the
 * options. Treats bytes as characters, as BuildKit does: BuildKit garbles a non-ASCII option, and this function must
 * garble it in the same way. Source: BuildKit's behaviour, `frontend/dockerfile/parser`.
 */
function splitFlags(text: string, escapeMark: string): Flagged {
  const line = Buffer.from(text, 'utf8').toString('latin1');
  const restAt = (position: number) => Buffer.from(line.slice(position), 'latin1').toString('utf8');
  const flags: string[] = [];
  let position = 0;
  for (;;) {
    while (position < line.length && isBlank(line.charAt(position))) position += 1;
    if (!line.startsWith('--', position)) return { flags, rest: restAt(position) };
    let word = '';
    let isQuoted = false;
    let quote = '';
    for (; position < line.length; position += 1) {
      let character = line.charAt(position);
      if (quote === '' && isBlank(character)) break;
      if (quote === '' && (character === "'" || character === '"')) {
        quote = character;
        isQuoted = true;
        continue;
      }
      if (quote !== '' && character === quote) {
        quote = '';
        continue;
      }
      if (character === escapeMark) {
        position += 1;
        if (position >= line.length) break;
        character = line.charAt(position);
      }
      word += character;
    }
    const isEnd = position >= line.length;
    if (word === '--') return { flags, rest: isEnd ? '' : restAt(position) };
    if (isQuoted || word !== '') flags.push(word);
    if (isEnd) return { flags, rest: '' };
  }
}

/** Returns the values of an option in the given order; an option without `=` counts as empty. */
export function valuesOf(flags: readonly string[], name: string): readonly string[] {
  return flags
    .filter(flag => flag === `--${name}` || flag.startsWith(`--${name}=`))
    .map(flag => flag.slice(name.length + 3));
}

const directiveKeys = new Set(['syntax', 'escape', 'check']);

/**
 * Parses a directive, `# key=value`, with its key in lower case; undefined for any other line. Source: Dockerfile
 * reference, Parser directives.
 */
export function parseDirective(
  line: string,
  mark: string,
): { readonly key: string; readonly value: string } | undefined {
  if (!line.startsWith(mark)) return undefined;
  const directive = /^([a-zA-Z][a-zA-Z0-9]*)[\t\f\r ]*=(.+)$/s;
  const [, name = '', text = ''] = directive.exec(withoutIndent(line.slice(mark.length))) ?? [];
  const key = name.toLowerCase();
  const value = trim(text, isPlainBlank);
  return directiveKeys.has(key) && value !== '' ? { key, value } : undefined;
}

function isPlainBlank(character: string): boolean {
  return '\t\f\r '.includes(character);
}

/** Throws the {@link Fault} for a Dockerfile that no builder would accept: 400, with the line. */
export function malformed(line: number, what: string): never {
  throw new Fault('bad-request', `The Dockerfile, line ${line}: ${what}`, { phase: 'request' });
}
