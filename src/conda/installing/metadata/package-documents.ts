import { type JsonShape, parseShaped } from '../../../foundation/json-shape.ts';
import { type ArchiveLimits, ArchiveProblem } from '../../archives/archive-checks.ts';
import type { UnpackedArchive } from '../../archives/unpacked-archive.ts';
import type { UnpackedContent } from '../../archives/unpacked-entries.ts';

export type JsonObject = Readonly<Record<string, unknown>>;

/** The documents below `info/` of a package. */
export interface PackageDocuments {
  /** `info/index.json` */
  readonly index: JsonObject;
  /** `info/about.json`; empty if the package has none. */
  readonly about: JsonObject;
  /** Returns the object of a JSON file, or undefined if the package does not have it. */
  json(name: string): JsonObject | undefined;
  /** Returns the members of a list in a JSON file, or undefined if the package does not have the file. They are read once. */
  items(name: string, member: string): Iterable<unknown> | undefined;
  /** Returns the lines of a text file, or undefined if the package does not have it. They are read once. */
  lines(name: string): Iterable<string> | undefined;
}

/** Documents that are kept in rows and records. */
const keptWhole: ReadonlySet<string> = new Set(['index.json', 'about.json']);
const maxKeptBytes = 1024 * 1024;
const documentShape = { maxValues: 4_000_000, maxDepth: 64, maxEscapes: 4_000_000 };
/** Bytes of a document that is kept as a whole. */
const maxWholeBytes = 8 * 1024 * 1024;
const pieceBytes = 64 * 1024;
const maxLineBytes = 64 * 1024;

/** Returns the documents of a package. Throws `ArchiveProblem` for one that is missing, damaged or too large. */
export function documentsOf(archive: UnpackedArchive, limits: ArchiveLimits): PackageDocuments {
  const find = (name: string, most: number): UnpackedContent | undefined => {
    const content = archive.entries.get(`info/${name}`)?.content;
    if (content === undefined || content.size <= most) return content;
    throw new ArchiveProblem(`has an info/${name} above ${most} bytes`);
  };
  const json = (name: string): JsonObject | undefined => {
    const most = keptWhole.has(name) ? maxKeptBytes : maxWholeBytes;
    const content = find(name, Math.min(most, limits.documentBytes));
    if (content === undefined) return undefined;
    const value = parsedDocument(name, archive.read(content, 0, content.size));
    if (isObject(value)) return value;
    throw damagedDocument(name);
  };
  const items = (name: string, member: string): Iterable<unknown> | undefined => {
    const content = find(name, limits.documentBytes);
    return content && itemsOf(name, member, piecesOf(archive, content));
  };
  const lines = (name: string): Iterable<string> | undefined => {
    // The other lists are kept in memory.
    const most = name === 'files' ? limits.documentBytes : maxWholeBytes;
    const content = find(name, Math.min(most, limits.documentBytes));
    return content && linesOf(name, piecesOf(archive, content));
  };
  const index = json('index.json');
  if (index === undefined) throw new ArchiveProblem('has no info/index.json');
  return { index, about: json('about.json') ?? {}, json, items, lines };
}

/** Returns true for a JSON object, and false for a list and for null. */
export function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function* piecesOf(archive: UnpackedArchive, content: UnpackedContent): Generator<Buffer> {
  const piece = Buffer.allocUnsafe(Math.min(pieceBytes, content.size));
  for (let at = 0; at < content.size; at += piece.length) {
    const length = Math.min(piece.length, content.size - at);
    // Its own copy: others read meanwhile.
    archive.read(content, at, length).copy(piece);
    yield piece.subarray(0, length);
  }
}

function* itemsOf(name: string, member: string, pieces: Iterable<Buffer>): Generator<unknown> {
  try {
    yield* itemsOfList(pieces, member);
  } catch (error) {
    throw error instanceof JsonListError ? damagedDocument(name) : error;
  }
}

function* linesOf(name: string, pieces: Iterable<Buffer>): Generator<string> {
  let rest = '';
  for (const piece of pieces) {
    // One character for each byte: a piece may end within a character.
    const lines = (rest + piece.toString('latin1')).split('\n');
    rest = lines.pop() ?? '';
    if (rest.length > maxLineBytes) throw damagedDocument(name);
    for (const line of lines) if (textOf(line) !== '') yield textOf(line);
  }
  if (textOf(rest) !== '') yield textOf(rest);
}

function textOf(line: string): string {
  return Buffer.from(line.replace(/\r$/, ''), 'latin1').toString();
}

function parsedDocument(name: string, bytes: Buffer): unknown {
  try {
    return parseShaped(bytes, documentShape);
  } catch {
    throw damagedDocument(name);
  }
}

function damagedDocument(name: string): ArchiveProblem {
  return new ArchiveProblem(`has a damaged info/${name}`);
}

/** A JSON document that is not what it should be. */
class JsonListError extends Error {}

const itemShape: JsonShape = { maxValues: 1_000_000, maxDepth: 64, maxEscapes: 1_000_000 };
/** Bytes of items that are parsed together. */
const batchBytes = 64 * 1024;
/** Bytes of one item, and of all that is not in the list. */
const mostItemBytes = 1024 * 1024;

const [quote, backslash, colon, comma] = [0x22, 0x5c, 0x3a, 0x2c];
const [openList, closeList, openObject, closeObject] = [0x5b, 0x5d, 0x7b, 0x7d];

/**
 * Yields the items of a list that is a member of a JSON object, while its bytes are read: the whole of a large document would
 * take many times its size in memory. Yields nothing for an object without the member. Throws {@link JsonListError} for
 * anything else.
 *
 * @param pieces the document; each is valid until the next one
 */
function* itemsOfList(pieces: Iterable<Buffer>, member: string): Generator<unknown> {
  const rest = new Text();
  const list = new Text();
  const key = JSON.stringify(member);
  let depth = 0;
  let inText = false;
  let isEscaped = false;
  /** Where the last text outside of the list starts in the rest, and whether a colon follows it. */
  let textStart = 0;
  let lastText = '';
  let isMember = false;
  let isInList = false;
  let wasList = false;
  let mayEnd = true;
  for (const piece of pieces) {
    let from = 0;
    for (let at = 0; at < piece.length; at += 1) {
      const byte = piece[at];
      if (inText) {
        if (isEscaped) isEscaped = false;
        else if (byte === backslash) isEscaped = true;
        else if (byte === quote) {
          inText = false;
          if (!isInList && depth === 1) lastText = rest.textFrom(textStart, piece, from, at + 1);
        }
        continue;
      }
      switch (byte) {
        case quote:
          inText = true;
          if (!isInList && depth === 1) textStart = rest.length + at - from;
          break;
        case colon:
          if (!isInList && depth === 1) isMember = lastText === key;
          break;
        case comma:
          if (depth === 1) isMember = false;
          if (isInList && depth === 2 && list.length + at - from >= batchBytes) {
            list.add(piece, from, at);
            from = at + 1;
            yield* list.items(false);
            mayEnd = false;
          }
          break;
        case openList:
        case openObject:
          depth += 1;
          if (depth === 2 && byte === openList && isMember) {
            if (wasList) throw new JsonListError('has a list twice');
            [isInList, wasList] = [true, true];
            rest.add(piece, from, at + 1);
            from = at + 1;
          }
          break;
        case closeList:
        case closeObject:
          depth -= 1;
          if (isInList && depth === 1) {
            isInList = false;
            list.add(piece, from, at);
            from = at;
            yield* list.items(mayEnd);
          }
      }
    }
    (isInList ? list : rest).add(piece, from, piece.length);
  }
  checkRest(rest.take(), member, wasList);
}

function checkRest(text: Buffer, member: string, wasList: boolean): void {
  const value = parsedItem(text);
  const isObject = typeof value === 'object' && value !== null && !Array.isArray(value);
  const own = isObject ? (value as Record<string, unknown>)[member] : undefined;
  // Read above, the list is empty here.
  const isRead = Array.isArray(own) && own.length === 0 && wasList;
  if (isObject && (own === undefined || isRead)) return;
  throw new JsonListError('is not an object with the list');
}

function parsedItem(text: Buffer): unknown {
  try {
    return parseShaped(text, itemShape);
  } catch (cause) {
    throw new JsonListError('is not JSON', { cause });
  }
}

/** A part of the document. */
class Text {
  #bytes = Buffer.alloc(0);
  #length = 0;

  get length(): number {
    return this.#length;
  }

  add(piece: Buffer, from: number, to: number): void {
    const length = this.#length + to - from;
    if (length > mostItemBytes) throw new JsonListError('has a part that is too long');
    if (length > this.#bytes.length) {
      const larger = Buffer.alloc(
        Math.min(mostItemBytes, Math.max(length, 2 * this.#bytes.length)),
      );
      this.#bytes.copy(larger, 0, 0, this.#length);
      this.#bytes = larger;
    }
    piece.copy(this.#bytes, this.#length, from, to);
    this.#length = length;
  }

  /** Returns what starts here and ends in the next piece. */
  textFrom(start: number, piece: Buffer, from: number, to: number): string {
    if (start >= this.#length) return piece.toString('utf8', from + start - this.#length, to);
    return this.#bytes.toString('utf8', start, this.#length) + piece.toString('utf8', from, to);
  }

  take(): Buffer {
    const bytes = this.#bytes.subarray(0, this.#length);
    this.#length = 0;
    return bytes;
  }

  /** Returns the items so far, and forgets them. */
  items(mayBeEmpty: boolean): unknown[] {
    const items = parsedItem(Buffer.concat([Buffer.from('['), this.take(), Buffer.from(']')]));
    if (!Array.isArray(items) || (items.length === 0 && !mayBeEmpty)) {
      throw new JsonListError('has a damaged list');
    }
    return items;
  }
}
