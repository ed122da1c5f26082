import type { UnpackedArchive } from '../archives/unpacked-archive.ts';
import type { PlannedPath } from './planned-path.ts';

/**
 * Returns the paths of scripts that package managers run when they link the package, before or after. A script for
 * unlinking is not one of them.
 */
export function linkScriptsOf(
  name: string,
  planned: readonly PlannedPath[],
  archive: UnpackedArchive,
): string[] {
  const scripts = ['pre', 'post'].map(when => `${when}-link.sh`);
  const installed = new Set(planned.map(({ path, originalPath = path }) => originalPath));
  return [
    ...scripts.map(script => `bin/.${name}-${script}`).filter(path => installed.has(path)),
    // Old packages have some there.
    ...scripts.map(script => `info/${script}`).filter(path => archive.entries.has(path)),
  ];
}
