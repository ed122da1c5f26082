import { compareTexts } from '../../../foundation/text.ts';

/** A named text, or a named list of texts. */
export type CanonicalField = readonly [name: string, value: string | readonly string[]];

export function text(name: string, value: string): CanonicalField {
  return [name, value];
}

export function list(name: string, values: readonly string[]): CanonicalField {
  return [name, values];
}

/**
 * Returns the fields as one text; different fields give different texts. Each field begins with its name and its length
 * in bytes of UTF-8, and a list with its name and its number of texts. So a reader always knows where the next one
 * starts, whatever the texts contain.
 *
 *     document := version LF *field
 *     field    := "text" SP name SP bytes LF value LF  |  "list" SP name SP count LF *( bytes LF value LF )
 */
export function canonicalDocument(version: string, fields: readonly CanonicalField[]): string {
  const written = fields.map(([name, value]) =>
    typeof value === 'string'
      ? `text ${name} ${measured(value)}`
      : `list ${name} ${value.length}\n${value.map(measured).join('')}`,
  );
  return `${version}\n${written.join('')}`;
}

function measured(value: string): string {
  return `${Buffer.byteLength(value)}\n${value}\n`;
}

/** Returns the texts in the order of their UTF-16 code units, each once; for ASCII that is `LC_ALL=C sort -u`. */
export function sortedOnce(texts: Iterable<string>): readonly string[] {
  return [...new Set(texts)].sort(compareTexts);
}
