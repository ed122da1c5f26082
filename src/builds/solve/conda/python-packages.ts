import type { SolveOptions } from '../../../conda/index.ts';
import { Fault } from '../../../foundation/fault.ts';
import {
  type BuiltWheel,
  fitOfWheel,
  isPythonVersion,
  type PythonSolver,
  type PythonTarget,
  readPythonLock,
  type UnbuiltProject,
  UvFailed,
  type UvProgram,
  type WheelFile,
  WheelsMissing,
} from '../../../pypi/index.ts';
import { type PipLine, readPipLine } from '../../../pypi/requirements/index.ts';
import type { SourceToBuild, WheelEnvironment } from '../wheels/build-wheels.ts';
import { BuilderRequired } from './builder-required.ts';
import { type CondaSystem, type FoundPackages, pythonSystemOf } from './conda-packages.ts';

/** The parts of the server for Python packages. */
export interface PythonParts {
  readonly pythonSolver: PythonSolver;
  readonly uv: Pick<UvProgram, 'isThere'>;
}

/** Builds wheels of source distributions for packages of Conda, and the Python among them. */
export type BuildWheelsFor = (
  sources: readonly SourceToBuild[],
  environment: Pick<WheelEnvironment, 'packages' | 'target' | 'indexes'>,
) => Promise<readonly BuiltWheel[]>;

export interface WheelOptions extends SolveOptions {
  /** Default: packages without a wheel require a builder for the whole image. */
  readonly buildWheels?: BuildWheelsFor | undefined;
}

const mostReasons = 5;
/** Wheels that are built for one image. */
const mostBuilt = 10;

/**
 * Returns the wheels that pip would add to packages of Conda. Throws a `Fault` for requirements without a solution, and
 * {@link BuilderRequired} for those that only pip in a builder can install.
 */
export async function findWheels(
  { packages, pip, isLocked, pythonLock }: FoundPackages,
  system: CondaSystem,
  { pythonSolver, uv }: PythonParts,
  options: WheelOptions,
): Promise<readonly WheelFile[]> {
  const target = targetOf(packages, system);
  if (pythonLock) {
    const given = { packages, pythonLock, target };
    return wheelsOfLock(given, { pythonSolver, uv }, options);
  }
  if (pip.length === 0) return [];
  const lines = pip.map(readPipLine);
  const reasons = lines.flatMap(line => (line.kind === 'builder' ? [line.reason] : []));
  if (reasons.length > 0) throw new BuilderRequired([...new Set(reasons)].slice(0, mostReasons));
  const listed = lines.flatMap(line => (line.kind === 'wheel' ? [line.wheel] : []));
  const sources = lines.flatMap(line => (line.kind === 'source' ? [line.project] : []));
  const requirements = lines.filter(isProject);
  const indexes = lines.filter(isIndex);
  const requiresUv = requirements.length > 0 || sources.length > 0;
  if (requiresUv && !uv.isThere()) {
    throw new BuilderRequired([`the 'pip' packages${isLocked ? ' of the lock file' : ''}`]);
  }
  // The layers of wheels refuse an environment without Python.
  const hasPython = packages.some(({ name }) => name === 'python');
  if (!requiresUv && !hasPython) return listed;
  if (target === undefined) throw new BuilderRequired(["the 'pip' packages for this Python"]);
  requireFitting(listed, target);
  if (sources.length > 0 && (!options.buildWheels || sources.length > mostBuilt)) {
    throw new BuilderRequired(sources.map(sourceOf));
  }
  const made =
    sources.length === 0 ? [] : await options.buildWheels?.(sources, { packages, target, indexes });
  const given = [...listed, ...(made ?? []).map(({ metadata: _, ...wheel }) => wheel)];
  if (requirements.length === 0) return given;
  const built: BuiltWheel[] = [];
  for (;;) {
    try {
      const request = { requirements, packages, target, indexes, isLocked, built };
      return [...given, ...(await pythonSolver.solve(request, options))];
    } catch (error) {
      if (error instanceof UvFailed) {
        options.log(`uv: ${error.words}`);
        throw new BuilderRequired([error.reason]);
      }
      if (!(error instanceof WheelsMissing)) throw error;
      const { projects } = error;
      const sources = projects.flatMap(sourceToBuild);
      const isKnown = sources.length === projects.length;
      if (!options.buildWheels || !isKnown || built.length + sources.length > mostBuilt) {
        throw new BuilderRequired(projects.map(sourceOf), undefined, olderThanAll(projects));
      }
      // What each of them requires is known when it is built.
      built.push(...(await options.buildWheels(sources, { packages, target, indexes })));
    }
  }
}

function sourceToBuild({ name, version, source }: UnbuiltProject): SourceToBuild[] {
  return version === undefined || source === undefined ? [] : [{ name, version, source }];
}

/** Returns the wheels of a lock file of Python packages. Throws a `Fault`: what it lists is never built. */
async function wheelsOfLock(
  {
    packages,
    pythonLock,
    target,
  }: Pick<FoundPackages, 'packages'> & {
    pythonLock: NonNullable<FoundPackages['pythonLock']>;
    target: PythonTarget | undefined;
  },
  { pythonSolver, uv }: PythonParts,
  options: SolveOptions,
): Promise<readonly WheelFile[]> {
  const { name } = pythonLock;
  const refuse = (kind: 'bad-request' | 'unavailable', message: string) =>
    new Fault(kind, `${name}: ${message}`, { phase: 'build' });
  // Elsewhere packages of pip are for a builder, which does not read such a file.
  if (target === undefined || !uv.isThere()) {
    throw refuse(
      'bad-request',
      "this server does not install Python packages itself: ask the operator to install uv and to set 'builds.uv: auto'",
    );
  }
  const { version, ...system } = target;
  const { wheels, lookups } = await readPythonLock.packages({ ...pythonLock, system, version });
  if (lookups.length === 0) return wheels;
  try {
    const request = { requirements: lookups, packages, target, isLocked: true };
    return [...wheels, ...(await pythonSolver.solve(request, options))];
  } catch (error) {
    if (error instanceof UvFailed) {
      options.log(`uv: ${error.words}`);
      throw refuse('unavailable', `uv could not look its packages up: ${error.reason}`);
    }
    if (!(error instanceof WheelsMissing)) throw error;
    throw refuse(
      'bad-request',
      `the index has no wheel for Python ${version} on Linux ${target.machine} of ${error.projects.map(({ name }) => name).join(', ')}. Packages of a lock file are not built: send a requirements.txt, which a builder can install`,
    );
  }
}

/** Throws a `Fault` (400) for a wheel of a lock file that was made for another system or Python. */
function requireFitting(wheels: readonly WheelFile[], target: PythonTarget): void {
  const other = wheels.find(({ fileName }) => fitOfWheel(fileName, target) === undefined);
  if (other === undefined) return;
  const { version, machine, glibc } = target;
  throw new Fault(
    'bad-request',
    `The wheel ${other.fileName} of the lock file does not run with Python ${version} on Linux for ${machine} with glibc ${glibc}, as the image has them: lock the packages for this image`,
    { phase: 'build' },
  );
}

function isProject(line: PipLine): line is Extract<PipLine, { kind: 'project' }> {
  return line.kind === 'project';
}

/** Returns what requires a builder: `the source distribution of numpy 1.21.0 (its newest wheel is for Python 3.9)`. */
export function sourceOf({ name, version, olderPython }: UnbuiltProject): string {
  const exact = version === undefined ? name : `${name} ${version}`;
  const why = olderPython === undefined ? '' : ` (its newest wheel is for Python ${olderPython})`;
  return `the source distribution of ${exact}${why}`;
}

/** Returns the newest Python for which each project can have a wheel; undefined if one has none. */
function olderThanAll(projects: readonly UnbuiltProject[]): string | undefined {
  const minors = projects.map(({ olderPython }) => Number(olderPython?.split('.')[1]));
  const oldest = Math.min(...minors);
  return Number.isNaN(oldest) ? undefined : `3.${oldest}`;
}

function isIndex(line: PipLine): line is Extract<PipLine, { kind: 'index' }> {
  return line.kind === 'index';
}

/** Returns the Python of an image; undefined for one that wheels are not chosen for, such as PyPy. */
function targetOf(
  packages: FoundPackages['packages'],
  system: CondaSystem,
): PythonTarget | undefined {
  const python = packages.find(({ name }) => name === 'python');
  const chosenFor = pythonSystemOf(system);
  if (python === undefined || chosenFor === undefined) return undefined;
  const isOther = /pypy|cp\d+t(?:$|[^a-z])/.test(python.build);
  if (isOther || !isPythonVersion(python.version)) return undefined;
  return { version: python.version, ...chosenFor };
}
