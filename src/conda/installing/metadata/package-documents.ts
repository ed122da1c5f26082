import { parseShaped } from '../../../foundation/json-shape.ts';
import type { ArchiveLimits } from '../../archives/archive-limits.ts';
import { ArchiveProblem } from '../../archives/archive-problem.ts';
import type { UnpackedArchive } from '../../archives/unpacked-archive.ts';

export type JsonObject = Readonly<Record<string, unknown>>;

/** The documents below `info/` of a package. */
export interface PackageDocuments {
  /** `info/index.json` */
  readonly index: JsonObject;
  /** `info/about.json`; empty if the package has none. */
  readonly about: JsonObject;
  /** Returns the object of a JSON file, or undefined if the package does not have it. */
  json(name: string): JsonObject | undefined;
  /** Returns the lines of a text file, or undefined if the package does not have it. */
  lines(name: string): string[] | undefined;
}

/** Documents that are kept in rows and records. */
const keptWhole: ReadonlySet<string> = new Set(['index.json', 'about.json']);
const maxKeptBytes = 1024 * 1024;
const shape = { maxValues: 16_000_000, maxDepth: 64, maxEscapes: 16_000_000 };

/** Returns the documents of a package. Throws `ArchiveProblem` for one that is missing, damaged or too large. */
export function documentsOf(archive: UnpackedArchive, limits: ArchiveLimits): PackageDocuments {
  const bytesOf = (name: string): Buffer | undefined => {
    const content = archive.entries.get(`info/${name}`)?.content;
    if (content === undefined) return undefined;
    const most = keptWhole.has(name) ? maxKeptBytes : limits.documentBytes;
    if (content.size > most) throw new ArchiveProblem(`has an info/${name} above ${most} bytes`);
    return archive.read(content, 0, content.size);
  };
  const json = (name: string): JsonObject | undefined => {
    const bytes = bytesOf(name);
    if (bytes === undefined) return undefined;
    const value = parse(name, bytes);
    if (isObject(value)) return value;
    throw new ArchiveProblem(`has a damaged info/${name}`);
  };
  const lines = (name: string): string[] | undefined => {
    const text = bytesOf(name)?.toString();
    return text?.split(/\r?\n/).filter(line => line !== '');
  };
  const index = json('index.json');
  if (index === undefined) throw new ArchiveProblem('has no info/index.json');
  return { index, about: json('about.json') ?? {}, json, lines };
}

/** Returns true for a JSON object. */
export function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function parse(name: string, bytes: Buffer): unknown {
  try {
    return parseShaped(bytes, shape);
  } catch {
    throw new ArchiveProblem(`has a damaged info/${name}`);
  }
}
