import { Fault } from '../../../foundation/fault.ts';

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

/** A section: a line that starts with `%`, and the lines before the next section. */
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
 * Returns the lines of each stage, from the first line with content. A line that begins with `Bootstrap:` starts a
 * stage at any position; the first stage may have other headers before it.
 */
export function splitStages(text: string): readonly (readonly Line[])[] {
  const stages: Line[][] = [];
  let isBegun = false;
  for (const line of linesOf(text)) {
    const isFirst = stages.length === 0 && !isBlankOrComment(line);
    const isBootstrap = /^bootstrap:/i.test(line.text);
    if (isFirst || (isBootstrap && isBegun)) stages.push([]);
    stages.at(-1)?.push(line);
    isBegun ||= /^\s*bootstrap\s*:/i.test(line.text) || isSectionStart(line);
  }
  return stages;
}

/**
 * Returns true for a text whose first line of content is a header, and that has `Bootstrap` among its first headers.
 */
export function hasBootstrap(text: string): boolean {
  for (const line of splitStages(text)[0] ?? []) {
    if (isBlankOrComment(line)) continue;
    if (/^\s*bootstrap\s*:/i.test(line.text)) return true;
    if (!/^\s*[a-z]+[0-9]*\s*:/i.test(line.text)) return false;
  }
  return false;
}

/** Parses a stage. Throws a `Fault` with the line for text that is neither a header nor a section. */
export function parseStage(lines: readonly Line[]): DefinitionStage {
  const start = lines.findIndex(isSectionStart);
  const headerLines = start < 0 ? lines : lines.slice(0, start);
  const sections: { name: string; argument: string; line: number; body: Line[] }[] = [];
  for (const line of start < 0 ? [] : lines.slice(start)) {
    const begun = sectionAt(line);
    if (begun) sections.push({ ...begun, line: line.number, body: [] });
    else sections.at(-1)?.body.push(line);
  }
  return { line: lines[0]?.number ?? 1, headers: parseHeaders(headerLines), sections };
}

function parseHeaders(lines: readonly Line[]): ReadonlyMap<string, Header> {
  const headers = new Map<string, Header>();
  let open: string | undefined;
  for (const line of lines) {
    if (isBlankOrComment(line)) {
      open = undefined;
      continue;
    }
    const text = line.text.split('#', 1)[0] ?? '';
    const colon = text.indexOf(':');
    if (colon < 0 && open === undefined) {
      refuseLine(line.number, `${shownText(line.text)} is neither a header nor in a section`);
    }
    const name = open ?? text.slice(0, colon).trim().toLowerCase();
    const before = open === undefined ? undefined : headers.get(open);
    const value = (open === undefined ? text.slice(colon + 1) : text).trim();
    // A backslash at the end continues the value on the next line.
    open = value.endsWith('\\') ? name : undefined;
    const part = open === undefined ? value : value.slice(0, -1);
    headers.set(name, {
      value: `${before?.value ?? ''}${part}`,
      line: before?.line ?? line.number,
    });
  }
  return headers;
}

function linesOf(text: string): readonly Line[] {
  const lines = text.replace(/^\ufeff/, '').split(/\r?\n/);
  if (lines.at(-1) === '') lines.pop();
  return lines.map((line, position) => ({ text: line, number: position + 1 }));
}

/** Returns the section that a line begins; undefined for any other line. */
export function sectionAt({ text }: Line): Pick<Section, 'name' | 'argument'> | undefined {
  const [, name, rest = ''] = /^\s*%+(\S*)(.*)$/s.exec(text) ?? [];
  if (name === undefined) return undefined;
  return { name: name.toLowerCase(), argument: (rest.split('#', 1)[0] ?? '').trim() };
}

function isSectionStart({ text }: Line): boolean {
  return /^\s*%/.test(text);
}

/** Returns true for a line that has no meaning outside scripts. */
export function isBlankOrComment({ text }: Line): boolean {
  return /^\s*(?:#|$)/.test(text);
}

/** Throws the {@link Fault} of a definition file that cannot be built, with the line, counted from 1. */
export function refuseLine(line: number, why: string): never {
  throw new Fault('bad-request', `The definition file cannot be built: line ${line}: ${why}`, {
    phase: 'request',
  });
}

/** Formats a text of the file for a message: short, on one line. */
export function shownText(text: string): string {
  const plain = text.trim().replace(/[\p{Cc}\p{Zl}\p{Zp}]/gu, '?');
  return plain.length > 80 ? `'${plain.slice(0, 80)}...'` : `'${plain}'`;
}
