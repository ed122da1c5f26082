import { Fault } from '../../../foundation/fault.ts';
import type { CondaPackage } from '../../conda-package.ts';
import type { PythonPlace } from '../../installing/installed-package.ts';

/**
 * Returns where the Python of an environment looks for packages. Throws a {@link Fault} for a Python without a version.
 * Source: CEP 17.
 *
 * @param index its record in the repository data, or its own `info/index.json`
 */
export function pythonPlaceOf(
  { version, fileName }: CondaPackage,
  index: Readonly<Record<string, unknown>>,
): PythonPlace {
  const minor = /^\d+\.\d+/.exec(version)?.[0];
  if (minor === undefined) throw unusable(fileName, `has the version ${version}`);
  const given = index.python_site_packages_path;
  const sitePackages = typeof given === 'string' ? given : `lib/python${minor}/site-packages`;
  if (!/^(?!\.\.?\/)[\w.+-]+(?:\/(?!\.\.?(?:\/|$))[\w.+-]+)*$/.test(sitePackages)) {
    throw unusable(fileName, 'has a python_site_packages_path that is not a path below the prefix');
  }
  // A free-threaded Python has its own directory.
  const minorVersion = sitePackages.includes(`/python${minor}t/`) ? `${minor}t` : minor;
  return { minorVersion, sitePackages };
}

function unusable(fileName: string, what: string): Fault {
  return new Fault('bad-request', `${fileName} ${what}: choose another build of Python`, {
    phase: 'layer',
  });
}
