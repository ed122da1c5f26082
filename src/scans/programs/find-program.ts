import { accessSync, constants } from 'node:fs';
import { basename, delimiter, isAbsolute, join } from 'node:path';
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
  const places = isAbsolute(setting)
    ? [setting]
    : path
        .split(delimiter)
        .filter(isAbsolute)
        .map(folder => join(folder, kind));
  const found = places.find(isExecutable);
  return found === undefined ? undefined : { kind, path: found };
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
