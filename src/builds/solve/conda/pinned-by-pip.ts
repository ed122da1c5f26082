import { packagesOfProjects } from '../../../pypi/index.ts';
import { readPipLine } from '../../../pypi/requirements/index.ts';
import type { FoundPackages } from './conda-packages.ts';

/** Limit of the specifications that a second solve gets: a frozen environment has hundreds of versions. */
const mostPinned = 500;

/**
 * Returns the versions that lines for pip require of packages that Conda installs, as match specifications. Conda chose them without
 * knowing these lines: `numpy==1.26.4` for pip beside `pytorch` for Conda, which brings the newest numpy.
 */
export function pinnedByPip({ packages, pip, isLocked }: FoundPackages): readonly string[] {
  if (isLocked) return [];
  const installed = packagesOfProjects(packages);
  const specs = pip.map(readPipLine).flatMap(line => {
    // A marker may not hold, and a local version such as 2.1.0+cu118 is never one of Conda.
    if (line.kind !== 'project' || line.marker !== undefined) return [];
    const { name, versions } = line;
    const found = installed.get(name);
    if (found === undefined || versions === '' || /===|\+/.test(versions)) return [];
    return [`${found.name} ${versions.replace(/==([^,]*\.\*)/g, '$1')}`];
  });
  return [...new Set(specs)].slice(0, mostPinned);
}
