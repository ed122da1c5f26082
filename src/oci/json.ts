import { isUtf8 } from 'node:buffer';
import { type JsonShape, JsonShapeError, parseShaped } from '../foundation/json-shape.ts';
import { OciSyntaxError, type SyntaxSubject } from './syntax-error.ts';

export type JsonObject = { [member: string]: unknown };

// An index of 2000 images, or an image of 2000 layers, with annotations on each of them.
const documentShape: JsonShape = { maxValues: 30_000, maxDepth: 500, maxEscapes: 500_000 };
// Replacing invalid UTF-8 with U+FFFD takes 15 ms per MiB.
const largeBytes = 256 * 1024;

/**
 * Parses JSON that will only be read. To write it again, use {@link parseLossless}, which is several times slower.
 * As in Go, in which most clients are written, the last of several members with the same name wins, and invalid
 * UTF-8 becomes U+FFFD (in documents of up to 256 KiB).
 * Throws {@link OciSyntaxError} when the text is not an object or exceeds the shape's limits.
 */
export function parseJson(
  bytes: Buffer,
  subject: SyntaxSubject,
  shape: JsonShape = documentShape,
): JsonObject {
  return parse(bytes, subject, shape);
}

/**
 * Parses JSON like {@link parseJson}, but keeps every value for writing: a number that a double cannot hold
 * exactly (beyond 2^53, or written with more digits) keeps its source text. Requires Node 22.
 */
export function parseLossless(bytes: Buffer, subject: SyntaxSubject): JsonObject {
  return parse(bytes, subject, documentShape, keepNumbers);
}

type Reviver = (this: unknown, key: string, value: unknown, ...rest: unknown[]) => unknown;

function parse(
  bytes: Buffer,
  subject: SyntaxSubject,
  shape: JsonShape,
  reviver?: Reviver,
): JsonObject {
  if (bytes.length > largeBytes && !isUtf8(bytes)) {
    throw new OciSyntaxError(subject, `The ${subject} is not valid JSON: it is not UTF-8`);
  }
  let value: unknown;
  try {
    value = parseShaped(bytes, shape, reviver);
  } catch (cause) {
    if (cause instanceof JsonShapeError) {
      throw new OciSyntaxError(subject, `The ${subject} ${cause.message}`, { cause });
    }
    throw new OciSyntaxError(subject, `The ${subject} is not valid JSON`, { cause });
  }
  const object = asObject(value);
  if (!object) throw new OciSyntaxError(subject, `The ${subject} is not a JSON object`);
  return object;
}

// The third argument of a reviver, JSON.rawJSON and JSON.isRawJSON come from the ECMAScript proposal
// "JSON.parse source text access", which TypeScript's library types lack.
const { rawJSON, isRawJSON } = JSON as unknown as {
  rawJSON(text: string): unknown;
  isRawJSON(value: unknown): boolean;
};

function keepNumbers(this: unknown, _key: string, value: unknown, ...rest: unknown[]): unknown {
  if (typeof value !== 'number') return value;
  const source = (rest[0] as { source?: string } | undefined)?.source;
  if (source === undefined || source === String(value)) return value;
  return rawJSON(source);
}

/**
 * Returns compact JSON. Members keep the order in which they were parsed or set, except members named like an
 * array index (`"7"`), which JavaScript puts first.
 */
export function writeJson(value: JsonObject): Buffer {
  return Buffer.from(JSON.stringify(value));
}

/** Returns the value if it is a JSON object, and undefined for null, arrays and all other values. */
export function asObject(value: unknown): JsonObject | undefined {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return undefined;
  // A number kept as source text is an object in JavaScript, but not in the document.
  return isRawJSON(value) ? undefined : (value as JsonObject);
}

/**
 * Returns the spelling under which the object has the member, or the given name if it has no such member.
 * Clients written in Go ignore the case of member names and use the last match, so `env` means `Env` to them.
 */
export function memberName(object: JsonObject, name: string): string {
  const folded = name.toLowerCase();
  return Object.keys(object).findLast(key => key.toLowerCase() === folded) ?? name;
}
