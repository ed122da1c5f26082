import { refuseLine, shownText } from './error.ts';

/** A line of a definition file, without its end. */
export interface Line {
  readonly text: string;
  /** Counted from 1. */
  readonly number: number;
}

export interface Header {
  readonly value: string;
  readonly line: number;
}

/** A section: a line that starts with `%`, and what comes before the next of its kind. */
export interface Section {
  /** In lower case, without `%`. */
  readonly name: string;
  /** The rest of the line, without a comment. */
  readonly argument: string;
  readonly line: number;
  readonly body: readonly Line[];
}

/** One image of a definition file. */
export interface DefinitionStage {
  readonly line: number;
  /** By their names in lower case. */
  readonly headers: ReadonlyMap<string, Header>;
  readonly sections: readonly Section[];
}

/**
 * The lines of each stage, without what comes before the first line that has content. A line that begins
 * with `Bootstrap:` begins a stage, wherever it stands.
 */
export function splitStages(text: string): readonly (readonly Line[])[] {
  const stages: Line[][] = [];
  for (const line of linesOf(text)) {
    const isFirst = stages.length === 0 && !isBlankOrComment(line);
    if (isFirst || /^bootstrap:/i.test(line.text)) stages.push([]);
    stages.at(-1)?.push(line);
  }
  return stages;
}

/** Takes a stage apart. Throws a `Fault` with the line for what is neither header nor section. */
export function parseStage(lines: readonly Line[]): DefinitionStage {
  const start = lines.findIndex(isSectionStart);
  const headerLines = start < 0 ? lines : lines.slice(0, start);
  const sections: { name: string; argument: string; line: number; body: Line[] }[] = [];
  for (const line of start < 0 ? [] : lines.slice(start)) {
    if (!isSectionStart(line)) {
      sections.at(-1)?.body.push(line);
      continue;
    }
    const [, name = '', rest = ''] = /^\s*%+(\S*)(.*)$/.exec(line.text) ?? [];
    const argument = (rest.split('#', 1)[0] ?? '').trim();
    sections.push({ name: name.toLowerCase(), argument, line: line.number, body: [] });
  }
  return { line: lines[0]?.number ?? 1, headers: parseHeaders(headerLines), sections };
}

function parseHeaders(lines: readonly Line[]): ReadonlyMap<string, Header> {
  const headers = new Map<string, Header>();
  for (const line of lines) {
    if (isBlankOrComment(line)) continue;
    const text = line.text.split('#', 1)[0] ?? '';
    const colon = text.indexOf(':');
    if (colon < 0) {
      refuseLine(line.number, `${shownText(line.text)} is neither a header nor in a section`);
    }
    const name = text.slice(0, colon).trim().toLowerCase();
    headers.set(name, { value: text.slice(colon + 1).trim(), line: line.number });
  }
  return headers;
}

function linesOf(text: string): readonly Line[] {
  const lines = text.replace(/^\ufeff/, '').split(/\r?\n/);
  if (lines.at(-1) === '') lines.pop();
  return lines.map((line, position) => ({ text: line, number: position + 1 }));
}

function isSectionStart({ text }: Line): boolean {
  return /^\s*%/.test(text);
}

/** True for a line that means nothing outside of scripts. */
export function isBlankOrComment({ text }: Line): boolean {
  return /^\s*(?:#|$)/.test(text);
}
