import type { CondaPackage } from '../../../conda/index.ts';
import { NoPythonSolution, packagesOfProjects, type WheelFile } from '../../../pypi/index.ts';
import { readPipLine } from '../../../pypi/requirements/index.ts';
import type { CondaSource } from '../../recipe/conda/conda-source.ts';
import { BuilderRequired, RepositoriesRequired } from './builder-required.ts';
import {
  type CondaPackagesDeps,
  type CondaSystem,
  type FoundPackages,
  findCondaPackages,
} from './conda-packages.ts';
import { findWheels, type PythonParts, type WheelOptions } from './python-packages.ts';

/** The packages of Conda and the wheels of an image for one platform. */
export interface FittingPackages {
  readonly packages: readonly CondaPackage[];
  readonly wheels: readonly WheelFile[];
}

/** Solves with older versions of Python, after the one with the newest. */
const mostOlder = 3;

/**
 * Returns the packages of Conda and the wheels beside them. Where both name a package, Conda is solved again with the versions that
 * pip allows. A request that names no Python gets the newest one for which its packages of pip have wheels. Where no Python has wheels
 * of all, those for the newest one are built. Throws as its parts do, for the newest Python where no older one fits.
 */
export async function findFitting(
  source: CondaSource,
  system: CondaSystem,
  deps: CondaPackagesDeps & PythonParts,
  options: WheelOptions,
): Promise<FittingPackages> {
  let newest = await findCondaPackages(source, system, deps, options);
  const { buildWheels, ...usual } = options;
  let found = newest;
  let first: unknown;
  let chosen: CondaChoices = {};
  let older = 0;
  for (;;) {
    try {
      return { packages: found.packages, wheels: await findWheels(found, system, deps, usual) };
    } catch (error) {
      if (error instanceof RepositoriesRequired) {
        if (buildWheels === undefined) throw error;
        first = error;
        newest = found;
        break;
      }
      // An index that is down is not a response about a Python.
      if (!isAboutPython(error)) throw error;
      first ??= error;
      const pinned = chosen.pinned === undefined ? pinnedByPip(found) : [];
      if (error instanceof NoPythonSolution && pinned.length > 0) {
        options.log(`Solving Conda again with the versions of pip: ${pinned.join(', ')}`);
        const choices = { ...chosen, pinned };
        const again = await findCondaPackages(source, system, deps, { ...usual, ...choices })
          // The channels do not have these versions, or not together with the other packages.
          .catch(() => undefined);
        options.signal.throwIfAborted();
        if (again !== undefined) {
          found = again;
          if (older === 0) newest = again;
          chosen = choices;
          // What is wrong now is something else.
          first = undefined;
          continue;
        }
        options.log('Conda has no solution with these versions');
      }
      const { olderPython } = error;
      if (olderPython === undefined || found.isPythonFree !== true || older === mostOlder) break;
      older += 1;
      options.log(
        `The packages of pip have wheels for an older Python: solving with ${olderPython}`,
      );
      chosen = { ...chosen, python: `python=${olderPython}` };
      const other = await findCondaPackages(source, system, deps, { ...usual, ...chosen }).catch(
        problem => {
          if (options.signal.aborted) throw problem;
          // The channels do not have it, or not together with the other packages.
          return undefined;
        },
      );
      if (other === undefined) break;
      found = other;
    }
  }
  if (buildWheels === undefined || !(first instanceof BuilderRequired)) throw first;
  return { packages: newest.packages, wheels: await findWheels(newest, system, deps, options) };
}

/** What packages of pip decide about those of Conda. */
interface CondaChoices {
  readonly python?: string;
  readonly pinned?: readonly string[];
}

function isAboutPython(error: unknown): error is BuilderRequired | NoPythonSolution {
  return error instanceof BuilderRequired || error instanceof NoPythonSolution;
}

/** Limit of the specifications that a second solve gets: a frozen environment has hundreds of versions. */
const mostPinned = 500;

/**
 * Returns the versions that lines for pip require of packages that Conda installs, as match specifications. Conda chose them without
 * knowing these lines: `numpy==1.26.4` for pip beside `pytorch` for Conda, which brings the newest numpy.
 */
function pinnedByPip({ packages, pip, isLocked }: FoundPackages): readonly string[] {
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
