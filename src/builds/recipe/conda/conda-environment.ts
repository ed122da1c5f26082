import { type Document, isScalar, isSeq, Lexer, LineCounter, parseDocument, visit } from 'yaml';
import { sortedOnce } from '../text/canonical-document.ts';
import { isUrl, oneLine, refuse, refusePathToken, shown } from '../text/text-field.ts';
import type { CondaEnvironment } from './conda-source.ts';
import { isPackageUrl, readChannel, readPackage, readPipRequirement } from './package-spec.ts';

/** An environment and the channels listed with it. */
interface ReadEnvironment {
  readonly environment: CondaEnvironment;
  readonly channels: readonly string[];
}

/**
 * Reads a conda environment file. Ignores `prefix` and members that conda does not know. Throws a `Fault` that names
 * the field and the member for malformed or unsupported content. Source: conda, Creating an environment file manually.
 */
export function readEnvironmentFile(field: string, text: string): ReadEnvironment {
  const { name, channels, dependencies, variables } = parseYaml(field, text);
  if (!Array.isArray(dependencies) || dependencies.length === 0) {
    refuse(`'${field}' has no list 'dependencies' with a package in it: add one`);
  }
  const packages: string[] = [];
  const pip: string[] = [];
  for (const [position, item] of dependencies.entries()) {
    const at = `${field}: dependencies[${position}]`;
    if (typeof item === 'string') packages.push(readPackage(at, item));
    else {
      const selected = readSelected(at, item);
      if (selected === undefined) pip.push(...readPipSection(at, item));
      else packages.push(...selected);
    }
  }
  if (packages.length + pip.length === 0) refuse(`'${field}: dependencies' names no package`);
  return {
    environment: {
      form: 'environment',
      ...(name === undefined || name === null ? {} : { name: readName(field, name) }),
      packages: sortedOnce(packages),
      pip,
      variables: readVariables(`${field}: variables`, variables),
    },
    channels: textsOf(`${field}: channels`, channels ?? []).map(({ at, text: channel }) =>
      readChannel(at, channel),
    ),
  };
}

/** Reads a list of packages; items that start with `pip:` are for pip. Throws a `Fault`. */
export function readEntries(field: string, entries: readonly string[]): CondaEnvironment {
  const packages: string[] = [];
  const pip: string[] = [];
  for (const [position, entry] of entries.entries()) {
    const at = `${field}[${position}]`;
    const item = oneLine(at, entry).replace(/^(['"])(.*)\1$/, '$2');
    if (item.startsWith('pip::')) {
      refuse(`'${at}': write 'pip:${item.slice(5)}', with one colon, for a package from PyPI`);
    }
    if (item.startsWith('pip:')) pip.push(readPipRequirement(at, item.slice(4)));
    else if (isUrl(item) && !item.includes('::') && !isPackageUrl(item)) {
      refusePathToken(at, item);
      refuse(
        `'${at}': ${shown(item)} is not a package: a lock file must be the only item of the list`,
      );
    } else packages.push(readPackage(at, item));
  }
  return { form: 'environment', packages: sortedOnce(packages), pip, variables: [] };
}

const exportedLine = /^[A-Za-z0-9_][A-Za-z0-9_.-]*=[^=\s]+=[^=\s]+$/;

/** Returns whether a text is what `conda list --export` prints: a line `name=version=build` for each package. */
export function isExportedList(text: string): boolean {
  const lines = linesOf(text);
  return lines.length > 0 && lines.every(line => exportedLine.test(line));
}

/**
 * Reads a list of `conda list --export`. Packages that pip installed have a build such as `pypi_0` there. Throws a
 * `Fault`. Source: conda, `cli/main_list.py`.
 */
export function readExportedList(field: string, text: string): CondaEnvironment {
  return readEntries(
    field,
    linesOf(text).map(line => {
      const [name, version, build = ''] = line.split('=');
      return /^pypi_\d+$/.test(build) ? `pip:${name}==${version}` : line;
    }),
  );
}

function linesOf(text: string): readonly string[] {
  return text
    .split('\n')
    .map(line => line.trim())
    .filter(line => line !== '' && !line.startsWith('#'));
}

function parseYaml(field: string, text: string): Record<string, unknown> {
  const value = yamlValue(field, text);
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    refuse(
      `'${field}' is not a conda environment file: it starts with 'dependencies:' or the like`,
    );
  }
  return value as Record<string, unknown>;
}

// Throws a `Fault` for aliases whose expansion is too large: the parser reports an error for them.
function yamlValue(field: string, text: string): unknown {
  const tooMuch = tooMuchIn(text);
  if (tooMuch !== undefined) refuse(`'${field}' ${tooMuch}`);
  try {
    const lines = new LineCounter();
    // The parser's own handling of these takes quadratic time.
    const document = parseDocument(text, {
      lineCounter: lines,
      prettyErrors: false,
      uniqueKeys: false,
      // As conda reads it: `<<` takes the members of another mapping.
      merge: true,
    });
    const [error] = document.errors;
    if (error) throw new Error(`line ${lines.linePos(error.pos[0]).line}: ${error.message}`);
    checkKeys(document);
    return document.toJS();
  } catch (error) {
    // The parser reports a full call stack as an error in the text.
    if (/call stack/.test((error as Error).message)) refuse(`'${field}' ${tooDeep}`);
    const [sentence] = (error as Error).message.split('\n');
    refuse(`'${field}' is not a YAML file that can be read: ${sentence}`);
  }
}

const maxMerges = 8;

function checkKeys(document: Document): void {
  let merges = 0;
  visit(document, {
    Map(_, { items }) {
      const seen = new Set<unknown>();
      for (const { key, value } of items) {
        // A few lines can merge a large mapping again and again.
        if (isScalar(key) && key.source === '<<') merges += isSeq(value) ? value.items.length : 1;
        if (merges > maxMerges) throw new Error(`more than ${maxMerges} mappings are merged`);
        // Making a name of a list or mapping takes time exponential in its depth.
        if (key !== null && !isScalar(key)) throw new Error('a key is not a text');
        const name = key?.value;
        if (seen.has(name)) throw new Error(`${shown(String(name))} is there twice`);
        seen.add(name);
      }
    },
  });
}

/**
 * Reads `sel(linux): package`, a package for some systems: images have Linux. Returns undefined for another item. Source:
 * mamba, YAML spec files.
 */
function readSelected(at: string, item: unknown): readonly string[] | undefined {
  const [[key, text] = ['', undefined], ...others] =
    typeof item === 'object' && item !== null ? Object.entries(item) : [];
  const system = /^sel\((linux|unix|osx|win)\)$/.exec(key)?.[1];
  if (system === undefined || others.length > 0 || typeof text !== 'string') return undefined;
  const spec = readPackage(`${at}.${key}`, text);
  return system === 'linux' || system === 'unix' ? [spec] : [];
}

function readPipSection(at: string, item: unknown): string[] {
  const [key, ...others] = typeof item === 'object' && item !== null ? Object.keys(item) : [];
  if (key === undefined || others.length > 0 || key !== 'pip') {
    refuse(
      `'${at}' is ${describeValue(item)}: write a package, in quotes if need be, or a list under 'pip:'`,
    );
  }
  // As conda reads it, a list without items is none.
  return textsOf(`${at}.pip`, (item as { pip: unknown }).pip ?? []).map(({ at, text }) =>
    readPipRequirement(at, text),
  );
}

function readName(field: string, name: unknown): string {
  if (typeof name === 'string') return oneLine(`${field}: name`, name);
  refuse(`'${field}: name' is ${describeValue(name)}: write a text, in quotes if need be`);
}

function readVariables(field: string, variables: unknown): readonly string[] {
  if (variables === undefined || variables === null) return [];
  if (typeof variables !== 'object' || Array.isArray(variables)) {
    refuse(`'${field}' is ${describeValue(variables)}: write NAME: value lines`);
  }
  return sortedOnce(
    Object.entries(variables).map(([name, value]) => {
      if (!/^[A-Za-z_][A-Za-z0-9_]*$/.test(name)) {
        refuse(
          `'${field}': ${shown(name)} is not a name for a variable: use letters, digits and '_', and begin with no digit`,
        );
      }
      const isScalar = ['string', 'number', 'boolean'].includes(typeof value);
      if (!isScalar) refuse(`'${field}.${name}' is ${describeValue(value)}: write a text`);
      return `${name}=${value === '' ? '' : oneLine(`${field}.${name}`, String(value))}`;
    }),
  );
}

function textsOf(field: string, list: unknown): { at: string; text: string }[] {
  if (!Array.isArray(list)) refuse(`'${field}' is ${describeValue(list)}: write a list of texts`);
  return list.map((text: unknown, position) => {
    const at = `${field}[${position}]`;
    if (typeof text !== 'string') {
      refuse(`'${at}' is ${describeValue(text)}: write a text, in quotes if need be`);
    }
    return { at, text };
  });
}

function describeValue(value: unknown): string {
  if (value === null || value === undefined) return 'empty';
  if (Array.isArray(value)) return 'a list';
  if (typeof value === 'object') return `a mapping (${Object.keys(value).slice(0, 3).join(', ')})`;
  return typeof value === 'string' ? 'a text' : `${typeof value} ${shown(String(value))}`;
}

/** Limits for the structure of a YAML text: the parser takes 10 µs for each mark, and a call for each level. */
const maxMarks = 2500;
// A text in quotes takes as long as a mark, also where none may be.
const maxQuotes = 4000;
const maxDepth = 20;
const tooDeep = 'has lists or mappings nested too deep';
const flowMark = /[\n,[\]{}&*!]|[-:?](?=\s)|(['"])/g;

/**
 * Returns why a YAML text is too large to parse, as the end of a sentence; undefined if it is not. Each list entry and
 * each mapping has one or two marks.
 */
function tooMuchIn(text: string): string | undefined {
  const first = text.slice(0, endOfMarks(text));
  if (isTooDeep(flowDepths(first)) || isTooDeep(blockDepths(first))) return tooDeep;
  if (first.length === text.length) return undefined;
  return `has more than ${maxMarks} line ends, list marks, colons and brackets, or ${maxQuotes} quotes: list at most 1200 packages`;
}

/** Returns the position of the first mark beyond the limit. */
function endOfMarks(text: string): number {
  let marks = 0;
  let quotes = 0;
  for (const { index, 1: quote } of text.matchAll(flowMark)) {
    if (quote === undefined) marks += 1;
    else quotes += 1;
    if (marks > maxMarks || quotes > maxQuotes) return index;
  }
  return text.length;
}

function isTooDeep(depths: Iterable<number>): boolean {
  for (const depth of depths) if (depth > maxDepth) return true;
  return false;
}

/** Yields the depth of each list and mapping in brackets. Only the lexer knows which brackets are part of a text. */
function* flowDepths(text: string): Generator<number> {
  let depth = 0;
  for (const token of new Lexer().lex(text)) {
    if (token === '[' || token === '{') yield ++depth;
    else if (token === ']' || token === '}') depth = Math.max(0, depth - 1);
  }
}

const blockMark = /[-:?](?:[ \t]+|$)/y;

/** Yields the depth of each list and mapping without brackets: by indentation, and on one line as in `- - - a`. */
function* blockDepths(text: string): Generator<number> {
  const columns: number[] = [];
  for (const [line] of text.matchAll(/[^\n]+/g)) {
    let column = line.search(/[^ ]/);
    if (column < 0 || line[column] === '#') continue;
    while ((columns.at(-1) ?? -1) >= column) columns.pop();
    for (;;) {
      columns.push(column);
      yield columns.length;
      blockMark.lastIndex = column;
      const [found] = blockMark.exec(line) ?? [];
      if (found === undefined) break;
      column += found.length;
    }
  }
}
