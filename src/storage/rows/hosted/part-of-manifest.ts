import { isThere } from '../driver/is-there.ts';

/**
 * Returns a condition: a manifest of the same repository lists the content of a row.
 *
 * @param row name of the row in the statement, with its `repository` and `digest`
 */
export function isPartOfManifest(row: string): string {
  return isThere(
    `hosted_parts p WHERE p.repository = ${row}.repository AND p.part = ${row}.digest`,
  );
}
