import { fixupSpdxId } from '@cyclonedx/cyclonedx-library/SPDX';
import parse from 'spdx-expression-parse';

/** A license that a package states. */
export type StatedLicense =
  | { readonly kind: 'id'; readonly id: string }
  | { readonly kind: 'expression'; readonly expression: string }
  /** A text that is not an SPDX expression. */
  | { readonly kind: 'name'; readonly name: string };

/** Reads the license of a package. Source: SPDX specification 2.3, annex D. */
export function licenseOf(text: string): StatedLicense {
  const id = fixupSpdxId(text);
  if (id !== undefined) return { kind: 'id', id };
  return isExpression(text)
    ? { kind: 'expression', expression: text }
    : { kind: 'name', name: text };
}

/** Returns the references to licenses in an expression that are not on SPDX's list: `LicenseRef-...`. */
export function referencesIn(expression: string): readonly string[] {
  return [...new Set(expression.match(/\bLicenseRef-[A-Za-z0-9.-]+/g))];
}

function isExpression(text: string): boolean {
  // Nothing describes the other document that such a reference names.
  if (text.includes('DocumentRef-')) return false;
  try {
    parse(text);
    return true;
  } catch {
    return false;
  }
}
