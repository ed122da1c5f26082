import { isUtf8 } from 'node:buffer';
import { type JsonShape, JsonShapeError, parseShaped } from '../foundation/json-shape.ts';
import { OciSyntaxError, type SyntaxSubject } from './syntax-error.ts';

export type JsonObject = { [member: string]: unknown };

// An index of 2000 images, or an image of 2000 layers, with annotations on each of them.
const documentShape: JsonShape = { maxValues: 30_000, maxDepth: 500, maxEscapes: 500_000 };
// To put U+FFFD in place of what is not UTF-8 takes 15 ms for a MiB.
const largeBytes = 256 * 1024;

/**
 * Parses JSON that is only read; for what is written again there is {@link parseLossless}, which
 * takes several times as long. As in Go, which most clients are written in, the last of two members
 * with one name counts and, up to 256 KiB, bytes that are not UTF-8 become U+FFFD.
 * Throws {@link OciSyntaxError} for anything but an object, and for more than {@link documentShape} allows.
 */
export function parseJson(
  bytes: Buffer,
  subject: SyntaxSubject,
  shape: JsonShape = documentShape,
): JsonObject {
  return parse(bytes, subject, shape);
}

/**
 * Parses JSON as {@link parseJson}, so that writing it again keeps every value: a number that a
 * double cannot hold exactly (beyond 2^53, or spelled with more digits) is kept as its source text.
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
// "JSON.parse source text access", which the library types do not know yet.
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
 * Compact JSON bytes; members keep the order in which they were parsed or set, but for those named
 * by an array index (`"7"`), which JavaScript puts first.
 */
export function writeJson(value: JsonObject): Buffer {
  return Buffer.from(JSON.stringify(value));
}

/** The value as an object, or undefined for null, arrays and everything else. */
export function asObject(value: unknown): JsonObject | undefined {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return undefined;
  // A number that was kept as its source text is an object to JavaScript, but not in the document.
  return isRawJSON(value) ? undefined : (value as JsonObject);
}

/**
 * The name under which the object has the member. Clients written in Go take any case for the names
 * they know, and of several the last, so `env` is as good as `Env` to them. The given name when the
 * object has it in no spelling.
 */
export function memberName(object: JsonObject, name: string): string {
  const folded = name.toLowerCase();
  return Object.keys(object).findLast(key => key.toLowerCase() === folded) ?? name;
}
