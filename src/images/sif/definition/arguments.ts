import { isBlankOrComment, type Line, parseStage, refuseLine, shownText } from './parser.ts';

const maxLength = 256 * 1024;
const reference = /\{\{\s*(\w+)\s*\}\}/g;

// Definition files for Wave use this name for the build context. Paths of `%files` always begin there.
const contextDirectory: readonly [string, string] = ['wave_context_dir', '.'];

/**
 * Returns the lines of a stage with each `{{ NAME }}` replaced: by the given value, otherwise by the value in
 * `%arguments`. A value may contain further names, but these may not. Text after a `#` stays unchanged. Throws a
 * `Fault` with the line for a name without a value.
 *
 * @param grow counts the characters of the result
 */
export function substituteArguments(
  lines: readonly Line[],
  given: Readonly<Record<string, string>>,
  grow: Grow,
): readonly Line[] {
  const values = new Map([...readArguments(lines), ...Object.entries(given)]);
  return lines.map(({ text, number }) => {
    const growHere = (by: number) => grow(by, number);
    growHere(text.length);
    return { text: substituteLine(text, values, number, growHere), number };
  });
}

/** Counts more characters, which come from a line. */
export type Grow = (by: number, line: number) => void;

/** Limits the characters of a whole definition file, with all of its stages and the names that braces stand for. Throws a `Fault` with the line above 256 KiB. */
export function limitGrowth(): Grow {
  let length = 0;
  return (by, line) => {
    length += by;
    if (length > maxLength)
      refuseLine(line, 'its arguments and braces make it longer than 256 KiB');
  };
}

function readArguments(lines: readonly Line[]): ReadonlyMap<string, string> {
  const sections = parseStage(lines).sections.filter(({ name }) => name === 'arguments');
  const entries = sections
    .flatMap(({ body }) => body)
    .filter(line => !isBlankOrComment(line))
    .map(({ text, number }): [string, string] => {
      const name = text.slice(0, Math.max(0, text.indexOf('='))).trim();
      if (name === '')
        refuseLine(number, `${shownText(text)} is not of the form NAME=value in '%arguments'`);
      return [name, text.slice(text.indexOf('=') + 1).trim()];
    });
  return new Map([contextDirectory, ...entries]);
}

function substituteLine(
  text: string,
  values: ReadonlyMap<string, string>,
  line: number,
  grow: (by: number) => void,
): string {
  let result = '';
  let end = 0;
  for (const match of text.matchAll(reference)) {
    const before = text.slice(end, match.index);
    if (/#[^!]/.test(before)) break;
    const [found, name = ''] = match;
    const value = values.get(name);
    if (value === undefined) {
      refuseLine(
        line,
        `${shownText(found)} has no value: give it one in '%arguments', or with the request ('buildArgs', sluice build --build-arg)`,
      );
    }
    grow(value.length);
    const whole = value.replace(reference, (inner, key) => {
      const replaced = values.get(key) ?? inner;
      grow(replaced.length);
      return replaced;
    });
    result += before + whole;
    end = match.index + found.length;
  }
  return result + text.slice(end);
}

/** Returns the names that the text refers to. */
export function namesReferredTo(text: string): ReadonlySet<string> {
  return new Set([...text.matchAll(reference)].map(([, name = '']) => name));
}
