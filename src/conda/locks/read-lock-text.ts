import { Fault } from '../../foundation/fault.ts';
import type { CondaPackage } from '../conda-package.ts';
import { packageOfUrl } from './package-of-url.ts';

/** What a lock file lists for one platform. */
export interface LockedPackages {
  readonly packages: readonly CondaPackage[];
  /** Requirements for pip. */
  readonly pip: readonly string[];
}

/**
 * Reads the text of an explicit lock file. Throws a `Fault` (400) for a line that is not the URL of a package, and for a
 * package of another platform.
 *
 * @param subdir `linux-64` or `linux-aarch64`
 */
export function readLockText(text: string, subdir: string): LockedPackages {
  const lines = text.split('\n').map(line => line.trim());
  const packages = lines
    .filter(line => line !== '' && line !== '@EXPLICIT' && !line.startsWith('#'))
    .map(packageOfUrl);
  const stray = packages.find(one => one.subdir !== subdir && one.subdir !== 'noarch');
  if (stray) {
    throw new Fault(
      'bad-request',
      `The lock file lists ${stray.fileName} for ${stray.subdir}, but the image is for ${subdir}: lock the packages for that platform`,
      { phase: 'request' },
    );
  }
  return {
    packages,
    pip: lines.filter(line => line.startsWith('# pip ')).map(line => line.slice(6)),
  };
}
