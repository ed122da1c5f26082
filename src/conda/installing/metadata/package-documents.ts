import { parseShaped } from '../../../foundation/text/index.ts';
import type { ArchiveLimits } from '../../archives/archive-limits.ts';
import { ArchiveProblem } from '../../archives/archive-problem.ts';
import type { UnpackedArchive } from '../../archives/unpacked-archive.ts';
import type { UnpackedContent } from '../../archives/unpacked-entries.ts';
import { itemsOfList, JsonListError } from './json-list.ts';

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
const shape = { maxValues: 4_000_000, maxDepth: 64, maxEscapes: 4_000_000 };
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
    const value = parse(name, archive.read(content, 0, content.size));
    if (isObject(value)) return value;
    throw damaged(name);
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

/** Returns true for a JSON object. */
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
    throw error instanceof JsonListError ? damaged(name) : error;
  }
}

function* linesOf(name: string, pieces: Iterable<Buffer>): Generator<string> {
  let rest = '';
  for (const piece of pieces) {
    // One character for each byte: a piece may end within a character.
    const lines = (rest + piece.toString('latin1')).split('\n');
    rest = lines.pop() ?? '';
    if (rest.length > maxLineBytes) throw damaged(name);
    for (const line of lines) if (textOf(line) !== '') yield textOf(line);
  }
  if (textOf(rest) !== '') yield textOf(rest);
}

function textOf(line: string): string {
  return Buffer.from(line.replace(/\r$/, ''), 'latin1').toString();
}

function parse(name: string, bytes: Buffer): unknown {
  try {
    return parseShaped(bytes, shape);
  } catch {
    throw damaged(name);
  }
}

function damaged(name: string): ArchiveProblem {
  return new ArchiveProblem(`has a damaged info/${name}`);
}
