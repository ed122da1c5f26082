import { randomUUID } from 'node:crypto';
import { rm } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import type { CondaPackage } from '../../conda/index.ts';
import { Fault } from '../../foundation/fault.ts';
import { pauseTurn, sortInTurns } from '../../foundation/pause-turn.ts';
import { Semaphore } from '../../foundation/semaphore.ts';
import { defaultIndex } from '../indexes/index-access.ts';
import { type LoopbackIndex, type OpenedIndex, WheelsUnread } from '../indexes/loopback-index.ts';
import { projectVersion } from '../project-version.ts';
import {
  type NamedIndex,
  type PythonRequirement,
  requirementLine,
} from '../requirements/requirement.ts';
import { type BuiltWheel, projectName, type WheelFile } from '../wheel-file.ts';
import { installedProjects } from './installed-projects.ts';
import { placesNote } from './places-note.ts';
import { type LockedProject, readPylock } from './pylock.ts';
import { fitOfWheel, type PythonTarget, pythonStandIn } from './python-target.ts';
import { runUv } from './run-uv.ts';
import {
  NoPythonSolution,
  olderPythonIn,
  oldestMinor,
  type UnbuiltProject,
  UvFailed,
  unusableIn,
  WheelsMissing,
} from './solve-failures.ts';

/** Chooses wheels for requirements. */
export interface PythonSolver {
  /**
   * Returns the wheels that satisfy the requirements beside the packages of Conda, sorted by name. Throws
   * {@link WheelsMissing} for packages that have no wheel, {@link UvFailed} for what uv cannot read, and a `Fault` for requirements
   * without a solution and for an index that is down.
   */
  solve(request: PythonRequest, options: PythonSolveOptions): Promise<readonly WheelFile[]>;
}

export interface PythonRequest {
  readonly requirements: readonly PythonRequirement[];
  /** Packages of Conda: they count as installed. */
  readonly packages: readonly CondaPackage[];
  readonly target: PythonTarget;
  /** Indexes that the request names, in its order. Default: none. */
  readonly indexes?: readonly NamedIndex[] | undefined;
  /** Wheels that were built of source distributions: each is chosen where its version is. Default: none. */
  readonly built?: readonly BuiltWheel[] | undefined;
  /** Wheels that are the only versions of their projects, such as those that were built of repositories. Default: none. */
  readonly given?: readonly BuiltWheel[] | undefined;
  /** True where the requirements are all packages: what they require is not added. Default: false. */
  readonly isLocked?: boolean | undefined;
  /** True where versions that are not final count as others do. Default: false. */
  readonly prereleases?: boolean | undefined;
}

export interface PythonSolveOptions {
  readonly log: (line: string) => void;
  readonly signal: AbortSignal;
  /** True for a caller without a login. Users wait for one of these at most. */
  readonly isAnonymous?: boolean | undefined;
}

export interface PythonSolverDeps {
  readonly index: LoopbackIndex;
  /** Returns the path of uv. Throws a `Fault` where there is none. */
  readonly findUv: () => string;
  /** A directory for the work of solves. */
  readonly directory: string;
  readonly limits: {
    readonly timeout: number;
    readonly memory: number;
    readonly maxWaiting: number;
  };
}

const atOnce = 2;
const mostRequirements = 2000;
const mostIndexes = 8;

export function createPythonSolver(deps: PythonSolverDeps): PythonSolver {
  const { limits } = deps;
  const turns = new Semaphore({
    limit: atOnce,
    mostWaiting: limits.maxWaiting,
    low: { limit: 1, passedBy: 8 },
    refusal: () =>
      new Fault('unavailable', 'Too many environments wait to be solved: try later', {
        phase: 'build',
      }),
  });

  // The work of a server that was killed.
  const ready = rm(deps.directory, { recursive: true, force: true }).catch(() => {});

  const solveNow = async (
    { requirements, packages, target, isLocked, prereleases, ...request }: PythonRequest,
    { log, signal }: PythonSolveOptions,
    { readsWheels, unbuilt: also = new Set() }: SolveMode = {},
  ): Promise<readonly WheelFile[]> => {
    await ready;
    const { indexes: named = [], built = [], given = [] } = request;
    const made = [...given, ...built];
    const unbuilt = new Set([...also, ...made.map(({ name }) => projectName(name))]);
    const installed = installedProjects(packages);
    const indexes = indexesOf(named);
    const session = { indexes, installed, log, signal, readsWheels, unbuilt, built, given };
    using opened = await deps.index.open(session);
    const directory = join(resolve(deps.directory), randomUUID());
    const stop = new AbortController();
    // A failure of the index says more than what uv makes of it.
    opened.failed.catch(error => stop.abort(error));
    const result = await runUv({
      program: deps.findUv(),
      directory,
      index: opened.url,
      requirements: requirements.map(requirementLine),
      python: pythonStandIn(target),
      isLocked,
      prereleases,
      timeoutMs: limits.timeout,
      memoryBytes: limits.memory,
      signal: AbortSignal.any([signal, stop.signal]),
    });
    if ('problem' in result) throw unsolved(result.problem, { installed, opened, indexes, target });
    const allowed = allowedFiles(requirements);
    await pauseTurn();
    const found: WheelFile[] = [];
    const missing: UnbuiltProject[] = [];
    for (const project of readPylock(result.lock)) {
      const place = unbuilt.has(projectName(project.name)) ? await placeOf(project) : undefined;
      if (place === 'unbuilt') {
        missing.push(unbuiltProject(project, target, { index: opened, allowed }));
        continue;
      }
      if (place === 'built') {
        found.push(...builtWheel(project, made));
        continue;
      }
      found.push(...(await wheelOf(project, { target, allowed, index: opened })));
      await pauseTurn();
    }
    if (missing.length > 0) throw new WheelsMissing(missing);
    return found.sort((one, other) => (one.name < other.name ? -1 : 1));
  };

  return {
    async solve(request, options) {
      if (request.requirements.length > mostRequirements) {
        throw new Fault('bad-request', `More than ${mostRequirements} requirements for pip`, {
          phase: 'build',
        });
      }
      const readsWheels = new Set<string>();
      const solveIn = async (unbuilt?: ReadonlySet<string>): Promise<readonly WheelFile[]> => {
        for (;;) {
          try {
            return await solveNow(request, options, { unbuilt, readsWheels });
          } catch (error) {
            if (!(error instanceof WheelsUnread) || readsWheels.has(error.index)) throw error;
            // Each solve may take all of its time: there is no third one for an index.
            const also = readsWheels.size === 0 ? [error.index] : indexesOf(request.indexes ?? []);
            for (const index of also) readsWheels.add(index);
          }
        }
      };
      const solve = () =>
        solveIn().catch(async error => {
          throw error instanceof WheelsMissing
            ? await allMissing(error, solveIn, {
                signal: options.signal,
                until: performance.now() + limits.timeout,
              })
            : error;
        });
      return turns.run(solve, {
        isLow: options.isAnonymous === true,
        signal: options.signal,
      });
    },
  };
}

interface SolveMode {
  /** Indexes whose wheels uv reads for their metadata. */
  readonly readsWheels?: ReadonlySet<string> | undefined;
  /** Projects whose source distributions count as wheels, to find all that must be built. */
  readonly unbuilt?: ReadonlySet<string> | undefined;
}

/**
 * A solve names one package without a wheel. Returns the failure that names all, as far as they are known before one is built, or what
 * is wrong if these packages, built, give no solution either.
 */
async function allMissing(
  first: WheelsMissing,
  solve: (unbuilt: ReadonlySet<string>) => Promise<unknown>,
  { signal, until }: { signal: AbortSignal; until: number },
): Promise<unknown> {
  const unbuilt = new Set<string>();
  let known: readonly UnbuiltProject[] = first.projects;
  while (unbuilt.size < mostUnbuilt && performance.now() < until) {
    const before = unbuilt.size;
    for (const { name } of known) unbuilt.add(name);
    if (unbuilt.size === before) break;
    try {
      await solve(unbuilt);
      break;
    } catch (error) {
      if (signal.aborted) throw error;
      // Their stand-ins require nothing: what has no solution with them has none after a build.
      if (error instanceof NoPythonSolution) {
        const named = new Set(error.message.toLowerCase().split(/[^a-z0-9._-]+/));
        const others = known.map(({ name }) => name).filter(name => !named.has(name));
        return error.withUnbuilt(others);
      }
      if (!(error instanceof WheelsMissing)) break;
      const names = new Set(error.projects.map(({ name }) => name));
      known = [...known.filter(({ name }) => !names.has(name)), ...error.projects];
    }
  }
  return new WheelsMissing(known.toSorted((one, other) => (one.name < other.name ? -1 : 1)));
}

const mostUnbuilt = 10;

/** Returns the folder of the index for a version that an index does not have as a wheel; undefined for other versions. */
async function placeOf({ wheels }: LockedProject): Promise<'built' | 'unbuilt' | undefined> {
  for (const { url } of wheels) {
    if (isBelow(url, 'unbuilt')) return 'unbuilt';
    if (isBelow(url, 'built')) return 'built';
    await pauseTurn();
  }
  return undefined;
}

function builtWheel({ name, version }: LockedProject, built: readonly BuiltWheel[]): WheelFile[] {
  const found = built.find(
    one =>
      projectName(one.name) === projectName(name) &&
      projectVersion(one.version) === projectVersion(version),
  );
  if (found === undefined) throw new WheelsMissing([{ name: projectName(name), version }]);
  const { metadata: _, ...wheel } = found;
  return [wheel];
}

/** Returns whether a file is in a folder of the index itself. A project can have the name of the folder. */
function isBelow(url: string, folder: 'installed' | 'unbuilt' | 'built'): boolean {
  const [, found] = /^http:\/\/[^/]+(?:\/[0-9a-f]{64})?\/([a-z]+)\//.exec(url) ?? [];
  return found === folder;
}

/** Returns a project that must be built, with the newest older Python for which it has a wheel. */
function unbuiltProject(
  { name: written, version }: LockedProject,
  target: PythonTarget,
  { index, allowed }: { index: Pick<OpenedIndex, 'wheelsOf' | 'sourceOf'>; allowed: AllowedFiles },
): UnbuiltProject {
  const name = projectName(written);
  const listed = index.sourceOf(name, version);
  const source = listed && isAllowed(allowed, name, listed.sha256) ? listed : undefined;
  const wheels = index
    .wheelsOf(name)
    .filter(file => projectVersion(file.split('-')[1] ?? '') === projectVersion(version))
    .slice(0, mostWheels);
  for (let minor = minorOf(target) - 1; minor >= oldestMinor; minor -= 1) {
    const older = { ...target, version: `3.${minor}.0` };
    if (wheels.some(file => fitOfWheel(file, older) !== undefined)) {
      return { name, version, source, olderPython: `3.${minor}` };
    }
  }
  return { name, version, source };
}

const mostWheels = 200;

function minorOf({ version }: PythonTarget): number {
  return Number(version.split('.')[1]);
}

/** Returns the indexes for names, the first one first: those beside the index of names come before it, as in uv. Throws a `Fault`. */
function indexesOf(named: readonly NamedIndex[]): readonly string[] {
  if (named.length > mostIndexes) {
    throw new Fault('bad-request', `More than ${mostIndexes} indexes for pip: name fewer`, {
      phase: 'build',
    });
  }
  const extra = named.filter(({ isExtra }) => isExtra).map(({ url }) => url);
  const given = named.findLast(({ isExtra }) => !isExtra)?.url;
  return [...extra, given ?? defaultIndex];
}

/** Returns the wheel of a project of a solution; none for one of Conda. */
async function wheelOf(
  { name, version, wheels }: LockedProject,
  {
    target,
    allowed,
    index,
  }: { target: PythonTarget; allowed: AllowedFiles; index: Pick<OpenedIndex, 'fileAt'> },
): Promise<WheelFile[]> {
  const fitting: FittingWheel[] = [];
  for (const { url: listed, size, sha256 } of wheels) {
    await pauseTurn();
    if (isBelow(listed, 'installed')) return [];
    const fit = fitOfWheel(listed.slice(listed.lastIndexOf('/') + 1), target);
    if (fit === undefined || sha256 === undefined) continue;
    const published = index.fileAt(listed);
    if (published === undefined) continue;
    fitting.push({ url: published.url, fileName: published.fileName, fit, size, sha256 });
  }
  const listed = fitting.filter(({ sha256 }) => isAllowed(allowed, name, sha256));
  if (fitting.length > 0 && listed.length === 0) {
    throw new Fault(
      'bad-request',
      `No wheel of ${name} ${version} has one of the hashes that the request states: the index has other files, or the hashes are of files for other systems`,
      { phase: 'build' },
    );
  }
  const [best] = await sortInTurns(listed, preferred);
  if (best === undefined) throw new WheelsMissing([{ name: projectName(name), version }]);
  const { fileName, url, size, sha256 } = best;
  return [{ name: projectName(name), version, fileName, url, size, sha256 }];
}

/** A wheel that the Python of an image can use. */
interface FittingWheel extends Omit<WheelFile, 'name' | 'version' | 'sha256'> {
  readonly sha256: string;
  /** The place of its tags: the smallest fits best. */
  readonly fit: number;
}

/** Two that fit the same way differ by their build numbers. */
function preferred(one: FittingWheel, other: FittingWheel): number {
  return one.fit - other.fit || (one.fileName < other.fileName ? 1 : -1);
}

/** The SHA-256 of the files of each project that may be installed; undefined where requirements state none. */
type AllowedFiles = ReadonlyMap<string, ReadonlySet<string>> | undefined;

function allowedFiles(requirements: readonly PythonRequirement[]): AllowedFiles {
  const allowed = new Map<string, Set<string>>();
  for (const { name, hashes = [] } of requirements) {
    if (hashes.length > 0) {
      allowed.set(name, new Set([...(allowed.get(name) ?? []), ...hashes]));
    }
  }
  return allowed.size === 0 ? undefined : allowed;
}

/** As pip, which installs nothing without a hash where one requirement has a hash. */
function isAllowed(allowed: AllowedFiles, written: string, sha256: string): boolean {
  if (allowed === undefined) return true;
  const name = projectName(written);
  const ofProject = allowed.get(name);
  if (ofProject !== undefined) return ofProject.has(sha256);
  throw new Fault(
    'bad-request',
    `The Python packages have hashes, and ${name}, which one of them requires, has none: list it with its version and '--hash', or remove all hashes`,
    { phase: 'build' },
  );
}

const noSolution = /^No solution found when resolving dependencies:? /;
const wheelsRequired = /Wheels are required for `([A-Za-z0-9._-]{1,200})`/g;
const addressed = /Package `([A-Za-z0-9._-]{1,200})` was included as a URL dependency/;

interface Looked {
  readonly installed: ReadonlyMap<string, string>;
  readonly opened: Pick<OpenedIndex, 'indexOf' | 'indexes' | 'hasStandIns'>;
  readonly indexes: readonly string[];
  readonly target: PythonTarget;
}

function unsolved(problem: string, { installed, opened, indexes, target }: Looked): Error {
  const missing = [...problem.matchAll(wheelsRequired)].map(([, name = '']) => projectName(name));
  if (missing.length > 0) {
    return new WheelsMissing([...new Set(missing)].sort().map(name => ({ name })));
  }
  if (!problem.startsWith('No solution found')) {
    const [, name] = addressed.exec(problem) ?? [];
    const reason =
      name === undefined
        ? "the 'pip' packages that the uv of this server cannot solve"
        : `the address of ${name} that another package of pip requires`;
    return new UvFailed(reason, problem);
  }
  const words = new Set(problem.toLowerCase().split(/[^a-z0-9._-]+/));
  const named = [...installed].filter(
    ([name, version]) => words.has(name) || problem.includes(`${name}==${version}`),
  );
  const ofConda = named.map(([name, version]) => `${name} ${version}`).join(', ');
  const note =
    ofConda === ''
      ? ''
      : ` These packages are from Conda: ${ofConda}. Ask Conda for versions that fit, or pip for other ones.`;
  const refusal = new NoPythonSolution(
    `The Python packages have no solution. ${sentence(problem.replace(noSolution, ''))}${note}${placesNote(problem, { opened, indexes })}`.trim(),
    olderPythonIn(problem, minorOf(target)),
  );
  // The versions that would do may have source distributions alone.
  const listed = refusal.olderPython === undefined ? unusableIn(problem) : [];
  // No version that would do has a source distribution where all of these stood as wheels.
  const unusable = listed.filter(name => !opened.hasStandIns(name));
  if (unusable.length === 0) return refusal;
  return new WheelsMissing(
    unusable.map(name => ({ name })),
    refusal,
  );
}

/** Hints of uv have no full stop. */
function sentence(text: string): string {
  return text === '' || text.endsWith('.') ? text : `${text}.`;
}
