import { hash } from 'node:crypto';
import { ArchiveProblem } from '../../conda/installing/index.ts';

/** What a `RECORD` says about a file. */
export interface RecordedFile {
  /** `sha256=<base64url>`; undefined where it says nothing. */
  readonly digest: string | undefined;
  /** Bytes. */
  readonly size: number | undefined;
}

/** Digests that a `RECORD` may have. Source: PyPA specifications, Recording installed projects. */
const algorithms = ['sha256', 'sha384', 'sha512'] as const;
export type RecordAlgorithm = (typeof algorithms)[number];

/**
 * Reads a `RECORD`: lines of comma-separated values. Returns what it says about each path as it is written there. Throws
 * `ArchiveProblem` for one that is not well-formed, and for more lines than the limit.
 */
export function readRecord(text: string, maxLines: number): Map<string, RecordedFile> {
  const files = new Map<string, RecordedFile>();
  let lines = 0;
  for (let at = 0; at < text.length; ) {
    const fields: string[] = [];
    let isOpen = true;
    while (isOpen) {
      const [field, end] = fieldAt(text, at);
      fields.push(field);
      isOpen = text[end] === ',';
      at = end + 1;
      if (fields.length > 3) throw damaged();
    }
    // A line ends by one or two characters.
    if (text[at - 1] === '\r' && text[at] === '\n') at += 1;
    const [path = '', digest = '', size = ''] = fields;
    if (path === '' && fields.length === 1) continue;
    lines += 1;
    if (lines > maxLines) throw new ArchiveProblem(`has more than ${maxLines} lines in RECORD`);
    files.set(path, {
      digest: digest === '' ? undefined : digest.replace(/={1,2}$/, ''),
      size: /^\d{1,15}$/.test(size) ? Number(size) : undefined,
    });
  }
  return files;
}

/** Returns the field that begins at a position, and the position of what ends it. */
function fieldAt(text: string, start: number): [field: string, end: number] {
  if (text[start] !== '"') {
    let end = start;
    while (end < text.length && !isEnd(text[end])) end += 1;
    return [text.slice(start, end), end];
  }
  const parts: string[] = [];
  for (let at = start + 1; ; ) {
    const quote = text.indexOf('"', at);
    if (quote < 0) throw damaged();
    parts.push(text.slice(at, quote));
    if (text[quote + 1] !== '"') {
      const end = quote + 1;
      if (end < text.length && !isEnd(text[end])) throw damaged();
      return [parts.join(''), end];
    }
    parts.push('"');
    at = quote + 2;
  }
}

function isEnd(character: string | undefined): boolean {
  return character === ',' || character === '\n' || character === '\r';
}

function damaged(): ArchiveProblem {
  return new ArchiveProblem('has a damaged RECORD');
}

/** Returns the algorithm of a digest in a `RECORD`; undefined for one that is not allowed there. */
export function algorithmOf(digest: string | undefined): RecordAlgorithm | undefined {
  const name = digest?.slice(0, digest.indexOf('='));
  return algorithms.find(algorithm => algorithm === name);
}

/** Returns the digest of bytes as a `RECORD` has it. */
export function recordDigest(bytes: Uint8Array): string {
  return `sha256=${hash('sha256', bytes, 'base64url')}`;
}

/**
 * Returns a line of a `RECORD`.
 *
 * @param file undefined for `RECORD` itself
 */
export function recordLine(path: string, file: RecordedFile | undefined): string {
  const text = /[",\r\n]/.test(path) ? `"${path.replaceAll('"', '""')}"` : path;
  return `${text},${file?.digest ?? ''},${file?.size ?? ''}\n`;
}

const mostWarnings = 5;

/** Sentences about a wheel for the log: the first ones, and how many there are. */
export class WheelWarnings {
  readonly #first: string[] = [];
  #count = 0;

  add(sentence: string): void {
    this.#count += 1;
    if (this.#first.length < mostWarnings) this.#first.push(sentence);
  }

  sentences(): readonly string[] {
    const more = this.#count - this.#first.length;
    return more > 0 ? [...this.#first, `${more} more sentences like these`] : this.#first;
  }
}
