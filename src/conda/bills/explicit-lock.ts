import type { PlatformSolution } from './solution-documents.ts';

/**
 * Returns the explicit lock file of a platform: the URL of each package with its digest. Source: conda, Building identical
 * conda environments.
 */
export function explicitLock({ packages }: PlatformSolution): string {
  const lines = packages.map(({ package: { url, md5, sha256 } }) => {
    if (md5 !== undefined) return `${url}#${md5}`;
    return sha256 === undefined ? url : `${url}#sha256:${sha256}`;
  });
  return ['@EXPLICIT', ...lines.sort(), ''].join('\n');
}
