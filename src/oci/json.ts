import { OciSyntaxError, type SyntaxSubject } from './syntax-error.ts';

export type JsonObject = { [member: string]: unknown };

/**
 * Parses JSON so that writing it again keeps every value: a number that a double cannot hold
 * exactly (beyond 2^53, or spelled with more digits) is kept as its source text.
 */
export function parseLossless(bytes: Buffer, subject: SyntaxSubject): JsonObject {
  let value: unknown;
  try {
    value = JSON.parse(bytes.toString('utf8'), keepNumbers);
  } catch (cause) {
    throw new OciSyntaxError(subject, `The ${subject} is not valid JSON`, { cause });
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw new OciSyntaxError(subject, `The ${subject} is not a JSON object`);
  }
  return value as JsonObject;
}

// The third argument of a reviver and JSON.rawJSON come from the ECMAScript proposal
// "JSON.parse source text access", which the library types do not know yet.
const rawJson = (JSON as unknown as { rawJSON(text: string): unknown }).rawJSON;

function keepNumbers(this: unknown, _key: string, value: unknown, ...rest: unknown[]): unknown {
  if (typeof value !== 'number') return value;
  const source = (rest[0] as { source?: string } | undefined)?.source;
  if (source === undefined || source === String(value)) return value;
  return rawJson(source);
}

/** Compact JSON bytes; members keep the order in which they were parsed or set. */
export function writeJson(value: JsonObject): Buffer {
  return Buffer.from(JSON.stringify(value));
}

/** The value as an object, or undefined for null, arrays and everything else. */
export function asObject(value: unknown): JsonObject | undefined {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
    ? (value as JsonObject)
    : undefined;
}
