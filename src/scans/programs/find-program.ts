import { basename, delimiter, isAbsolute } from 'node:path';
import { isExecutable, programIn } from '../../foundation/limited-program.ts';
import type { ProgramKind } from './program-kinds.ts';

/**
 * Returns the program of a setting: `trivy`, `grype`, or an absolute path whose last part begins with one of these. Undefined where there
 * is none.
 *
 * @param path `PATH` of the server
 */
export function findScannerProgram(
  setting: string,
  path: string,
): { readonly kind: ProgramKind; readonly path: string } | undefined {
  const kind = (['trivy', 'grype'] as const).find(name => basename(setting).startsWith(name));
  if (kind === undefined) return undefined;
  const inPath = () => programIn(path.split(delimiter), kind);
  const given = () => (isExecutable(setting) ? setting : undefined);
  const found = isAbsolute(setting) ? given() : inPath();
  return found === undefined ? undefined : { kind, path: found };
}
