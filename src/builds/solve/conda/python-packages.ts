import type { SolveOptions } from '../../../conda/index.ts';
import { Fault } from '../../../foundation/fault.ts';
import { inTurns } from '../../../foundation/work.ts';
import {
  type AddressedWheels,
  type BuiltWheel,
  type CommitFinder,
  fitOfWheel,
  isPythonVersion,
  NoPythonSolution,
  type PythonRequest,
  type PythonSolver,
  type PythonTarget,
  packagesOfProjects,
  readPythonLock,
  type UnbuiltProject,
  UvFailed,
  type UvProgram,
  type WheelFile,
  WheelsMissing,
} from '../../../pypi/index.ts';
import {
  commitAddress,
  type GitRequirement,
  isCommitId,
  type PipLine,
  type PythonRequirement,
  projectName,
  readPipLine,
} from '../../../pypi/requirements/index.ts';
import { mustBuild } from '../wheels/build-wheels.ts';
import type { CommitToBuild, SourceToBuild, WheelEnvironment } from '../wheels/wheel-sources.ts';
import { BuilderRequired, RepositoriesRequired } from './builder-required.ts';
import { type CondaSystem, type FoundPackages, pythonSystemOf } from './conda-packages.ts';

/** The parts of the server for Python packages. */
export interface PythonParts {
  readonly pythonSolver: PythonSolver;
  readonly uv: Pick<UvProgram, 'isThere'>;
  readonly commits: Pick<CommitFinder, 'commitOf'>;
  readonly addressed: AddressedWheels;
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
  { pythonSolver, uv, commits, addressed }: PythonParts,
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
  const named = lines.filter(isAddressed);
  // A lock file lists what its wheels require.
  const listed = isLocked ? named.flatMap(line => (line.kind === 'wheel' ? [line.wheel] : [])) : [];
  const open = isLocked ? named.filter(({ kind }) => kind === 'address') : [];
  if (open.length > 0) {
    throw new BuilderRequired(open.map(({ wheel }) => `the address of ${wheel.name} for pip`));
  }
  const sources = lines.flatMap(line => (line.kind === 'source' ? [line.project] : []));
  const repositories = lines.filter(isRepository);
  const projects = lines.filter(isProject);
  const indexes = lines.filter(isIndex);
  for (const { name, ignored } of projects.slice(0, mostReasons)) {
    if (ignored === undefined) continue;
    options.log(`pip ignores ${ignored} behind ${name}: write it in a line of its own`);
  }
  const toRead = isLocked ? [] : named;
  const toSolve = projects.length + sources.length + repositories.length + toRead.length;
  const requiresUv = toSolve > 0;
  if (requiresUv && !uv.isThere()) {
    throw new BuilderRequired([`the 'pip' packages${isLocked ? ' of the lock file' : ''}`]);
  }
  // The layers of wheels refuse an environment without Python.
  const hasPython = packages.some(({ name }) => name === 'python');
  if (!requiresUv && !hasPython) return listed;
  if (target === undefined) throw new BuilderRequired([packagesFor(packages, system)]);
  requireFitting(listed, target);
  const read = await readAddressed(toRead, { projects, target, addressed }, options);
  const requirements = [...projects, ...read.map(requirementOf)];
  const { buildWheels } = options;
  if (sources.length > 0 && (!buildWheels || sources.length > mostBuilt)) {
    throw new BuilderRequired(sources.map(sourceOf));
  }
  const environment = { packages, target, indexes };
  const made = sources.length === 0 ? [] : ((await buildWheels?.(sources, environment)) ?? []);
  const given = [...listed, ...made.map(withoutMetadata)];
  const prereleases = lines.some(({ kind }) => kind === 'prereleases');
  const request = {
    requirements,
    packages,
    target,
    indexes,
    isLocked,
    prereleases,
    given: read.map(({ wheel }) => wheel),
  };
  const known = sources.length;
  if (repositories.length === 0) {
    if (requirements.length === 0) return given;
    return [...given, ...(await solveBuilding(request, pythonSolver, options, known))];
  }
  if (buildWheels === undefined) {
    // An older Python may be required for these.
    if (requirements.length > 0) await solveBuilding(request, pythonSolver, options, known);
    throw new RepositoriesRequired(repositories.map(repositoryOf).slice(0, mostReasons));
  }
  requirePinned(repositories, requirements);
  const toBuild = await commitsOf(repositories, commits, options.signal);
  const ofCommits = await buildCommits(toBuild, environment, buildWheels);
  const wheels = ofCommits.map(({ wheel }) => withoutMetadata(wheel));
  if (isLocked && requirements.length === 0) return [...given, ...wheels];
  // What a dry run does not build is not known to the solver.
  const built = isLocked ? [] : ofCommits.filter(({ wheel }) => !mustBuild(wheel));
  const whole = {
    ...request,
    requirements: [...requirements, ...built.map(requirementOf)],
    given: [...request.given, ...built.map(({ wheel }) => wheel)],
  };
  const inAll = known + toBuild.length;
  const solved =
    whole.requirements.length === 0 ? [] : await solveBuilding(whole, pythonSolver, options, inAll);
  const names = new Set(wheels.map(({ name }) => projectName(name)));
  return [...given, ...wheels, ...solved.filter(({ name }) => !names.has(projectName(name)))];
}

type AddressedLine = Extract<PipLine, { kind: 'wheel' | 'address' }>;

/** Reads the wheels that a request names by their addresses. Throws a `Fault` for one that does not fit, or has no digest beside others. */
async function readAddressed(
  lines: readonly AddressedLine[],
  {
    projects,
    target,
    addressed,
  }: {
    readonly projects: readonly PythonRequirement[];
    readonly target: PythonTarget;
    readonly addressed: AddressedWheels;
  },
  { log, signal, isAnonymous }: WheelOptions,
): Promise<readonly { wheel: BuiltWheel; extras: readonly string[] }[]> {
  if (lines.length > mostAddressed) {
    throw refuse(`More than ${mostAddressed} addresses of wheels for pip: put them into an index`);
  }
  const names = new Set<string>();
  for (const { wheel } of lines) {
    if (names.has(wheel.name)) throw refuse(`Two addresses of ${wheel.name} for pip: remove one`);
    names.add(wheel.name);
    if (fitOfWheel(wheel.fileName, target) === undefined) {
      throw new NoPythonSolution(
        `The wheel ${wheel.fileName} does not run with ${systemOf(target)}: name another file`,
        olderFitting(wheel.fileName, target),
      );
    }
  }
  const open = lines.find(({ kind }) => kind === 'address');
  if (open && projects.some(({ hashes }) => hashes !== undefined)) {
    throw refuse(
      `The Python packages have hashes, and ${open.wheel.name} @ ${open.wheel.url} has none: add '#sha256=' and its SHA-256`,
    );
  }
  return inTurns(wheelsAtOnce, lines, async ({ kind, wheel: named, extras = [] }) => {
    const wheel = await addressed.read(named, { signal, isAnonymous });
    if (kind === 'address') {
      log(`${wheel.name} ${wheel.version} at ${wheel.url} has the SHA-256 ${wheel.sha256}`);
    }
    return { wheel, extras };
  });
}

/** Returns the newest older Python that can use a wheel; undefined for none. */
function olderFitting(fileName: string, target: PythonTarget): string | undefined {
  for (let minor = Number(target.version.split('.')[1]) - 1; minor >= oldestMinor; minor -= 1) {
    const older = { ...target, version: `3.${minor}.0` };
    if (fitOfWheel(fileName, older) !== undefined) return `3.${minor}`;
  }
  return undefined;
}

const oldestMinor = 7;
const mostAddressed = 20;
const wheelsAtOnce = 2;

/** Returns the wheels that satisfy requirements. Those that no index has are built. */
async function solveBuilding(
  request: PythonRequest & Pick<WheelEnvironment, 'indexes'>,
  pythonSolver: PythonSolver,
  options: WheelOptions,
  alreadyBuilt: number,
): Promise<readonly WheelFile[]> {
  const { packages, target, indexes } = request;
  const built: BuiltWheel[] = [];
  for (;;) {
    try {
      return await pythonSolver.solve({ ...request, built }, options);
    } catch (error) {
      if (error instanceof UvFailed) {
        options.log(`uv: ${error.words}`);
        throw new BuilderRequired([error.reason]);
      }
      if (!(error instanceof WheelsMissing)) throw error;
      const { projects } = error;
      const sources = projects.flatMap(sourceToBuild);
      const isKnown = sources.length === projects.length;
      const count = alreadyBuilt + built.length + sources.length;
      if (!options.buildWheels || !isKnown || count > mostBuilt) {
        throw new BuilderRequired(projects.map(sourceOf), undefined, olderThanAll(projects));
      }
      // What each of them requires is known when it is built.
      built.push(...(await options.buildWheels(sources, { packages, target, indexes })));
    }
  }
}

function withoutMetadata({ metadata: _, ...wheel }: BuiltWheel): WheelFile {
  return wheel;
}

/** A repository that is installed, at its commit. */
interface RepositoryToBuild extends CommitToBuild {
  readonly extras: readonly string[];
}

/** Returns the commits of repositories: those that branches and tags have now. */
async function commitsOf(
  repositories: readonly GitRequirement[],
  commits: Pick<CommitFinder, 'commitOf'>,
  signal: AbortSignal,
): Promise<readonly RepositoryToBuild[]> {
  if (repositories.length > mostBuilt) {
    throw refuse(`More than ${mostBuilt} git repositories for pip: publish their packages`);
  }
  return inTurns(commitsAtOnce, repositories, async ({ name, extras, url, ...it }) => {
    const id = await commits.commitOf(url, it.revision, signal);
    return { name, extras, commit: { url, id, subdirectory: it.subdirectory } };
  });
}

const commitsAtOnce = 4;

/** Builds the wheels of commits. Throws a `Fault` for one that Conda installs also. */
async function buildCommits(
  toBuild: readonly RepositoryToBuild[],
  environment: Parameters<BuildWheelsFor>[1],
  buildWheels: BuildWheelsFor,
): Promise<readonly { wheel: BuiltWheel; extras: readonly string[] }[]> {
  const wheels = await buildWheels(toBuild, environment);
  const extrasOf = new Map(toBuild.map(({ commit, extras }) => [commitAddress(commit), extras]));
  const installed = packagesOfProjects(environment.packages);
  return wheels.map(wheel => {
    const address = wheel.commit && commitAddress(wheel.commit);
    const ofConda = installed.get(projectName(wheel.name));
    if (ofConda) {
      throw refuse(
        `${wheel.name} is a package of Conda (${ofConda.name} ${ofConda.version}), and ${address} would replace it: remove one of the two`,
      );
    }
    return { wheel, extras: extrasOf.get(address ?? '') ?? [] };
  });
}

function requirementOf({
  wheel,
  extras,
}: {
  wheel: BuiltWheel;
  extras: readonly string[];
}): PythonRequirement {
  return { name: projectName(wheel.name), extras, versions: `==${wheel.version}` };
}

/** Throws a `Fault` for a branch beside requirements with hashes, which promise that the same files are installed. */
function requirePinned(
  repositories: readonly GitRequirement[],
  requirements: readonly PythonRequirement[],
): void {
  const open = repositories.find(({ revision = '' }) => !isCommitId(revision));
  if (open === undefined || requirements.every(({ hashes }) => hashes === undefined)) return;
  throw refuse(
    `The Python packages have hashes, and git+${open.url} names no commit: write its 40 digits after an '@'`,
  );
}

function refuse(message: string): Fault {
  return new Fault('bad-request', message, { phase: 'build' });
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
  { pythonSolver, uv }: Pick<PythonParts, 'pythonSolver' | 'uv'>,
  options: WheelOptions,
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
  const chosen = await readPythonLock.packages({ ...pythonLock, system, version });
  const { lookups, commits } = chosen;
  if (commits.length > mostBuilt) {
    throw refuse('bad-request', `more than ${mostBuilt} packages of git repositories`);
  }
  if (commits.length > 0 && !options.buildWheels) {
    throw new RepositoriesRequired(commits.map(sourceOf).slice(0, mostReasons));
  }
  const environment = { packages, target, indexes: [] };
  const toBuild = commits.map(one => ({ ...one, extras: [] }));
  const built =
    toBuild.length > 0 && options.buildWheels
      ? await buildCommits(toBuild, environment, options.buildWheels)
      : [];
  const wheels = [...chosen.wheels, ...built.map(({ wheel }) => withoutMetadata(wheel))];
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
  throw refuse(
    `The wheel ${other.fileName} of the lock file does not run with ${systemOf(target)}: lock the packages for this image`,
  );
}

function systemOf({ version, machine, glibc }: PythonTarget): string {
  return `Python ${version} on Linux for ${machine} with glibc ${glibc}, as the image has them`;
}

function isAddressed(line: PipLine): line is AddressedLine {
  return line.kind === 'wheel' || line.kind === 'address';
}

function isRepository(line: PipLine): line is Extract<PipLine, { kind: 'repository' }> {
  return line.kind === 'repository';
}

function repositoryOf({ name, url }: Pick<GitRequirement, 'name' | 'url'>): string {
  return `the git repository ${url}${name === undefined ? '' : ` of ${name}`}`;
}

function isProject(line: PipLine): line is Extract<PipLine, { kind: 'project' }> {
  return line.kind === 'project';
}

/** Returns what requires a builder: `the source distribution of numpy 1.21.0 (its newest wheel is for Python 3.9)`. */
export function sourceOf(given: UnbuiltProject | SourceToBuild | WheelFile): string {
  if ('commit' in given && given.commit) {
    return repositoryOf({ name: given.name, url: given.commit.url });
  }
  const { name, version, olderPython } = given as UnbuiltProject;
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

/** Says for which Python or system no wheels are chosen. */
function packagesFor(packages: FoundPackages['packages'], system: CondaSystem): string {
  const python = packages.find(({ name }) => name === 'python');
  if (python === undefined) return "the 'pip' packages of an environment without Python";
  const isSystem = pythonSystemOf(system) === undefined;
  const place = isSystem ? 'this system' : `Python ${python.version} (build ${python.build})`;
  return `the 'pip' packages for ${place}`;
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
