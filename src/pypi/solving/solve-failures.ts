import { Fault } from '../../foundation/fault.ts';
import { projectName, type SourceFile } from '../wheel-file.ts';

/** A package that has no wheel for the Python and system of an image. */
export interface UnbuiltProject {
  readonly name: string;
  /** The version that would be installed; undefined where it is unknown. */
  readonly version?: string | undefined;
  /** The newest older Python with a wheel of this version, such as `3.9`; undefined for none. */
  readonly olderPython?: string | undefined;
  /** What it can be built from; undefined where that is unknown. */
  readonly source?: SourceFile | undefined;
}

/** Requirements whose packages have no wheel: they must be built. */
export class WheelsMissing extends Error {
  readonly projects: readonly UnbuiltProject[];
  /** What is wrong if these packages, built, give no solution either; undefined for what says nothing about that. */
  readonly otherwise: NoPythonSolution | undefined;

  constructor(projects: readonly UnbuiltProject[], otherwise?: NoPythonSolution) {
    super(`no wheels of ${projects.map(({ name }) => name).join(', ')}`);
    this.projects = projects;
    this.otherwise = otherwise;
  }
}

/** Requirements without a solution. */
export class NoPythonSolution extends Fault {
  /** The newest older Python that the explanation names, such as `3.11`; undefined for none. */
  readonly olderPython: string | undefined;

  constructor(message: string, olderPython: string | undefined) {
    super('bad-request', message, { phase: 'build' });
    this.olderPython = olderPython;
  }

  /** Returns the same with the packages that have no wheel: they are not the reason, but come next. */
  withUnbuilt(names: readonly string[]): NoPythonSolution {
    if (names.length === 0) return this;
    const each = names.slice(0, mostNamed).join(', ');
    const note = `These packages have no wheel that fits, and would be built: ${each}.`;
    return new NoPythonSolution(`${this.message} ${note}`, this.olderPython);
  }
}

const mostNamed = 10;

/** uv ended without a solution, and did not say that there is none: it is of another version, or read what it does not handle. */
export class UvFailed extends Error {
  /** What a builder is required for. */
  readonly reason: string;
  /** The words of uv. */
  readonly words: string;

  constructor(reason: string, words: string) {
    super(`${reason}: ${words}`);
    this.reason = reason;
    this.words = words;
  }
}

const unusable = /([A-Za-z0-9][A-Za-z0-9._-]{0,200})(?:[<>=!~][^ ]{0,200})? has no usable wheels/g;

/** Returns the projects that an explanation of uv says have versions without a wheel. */
export function unusableIn(explanation: string): readonly string[] {
  const names = [...explanation.matchAll(unusable)].map(([, name = '']) => projectName(name));
  return [...new Set(names)].sort();
}

const abiTag = /`cp3(\d{1,2})m?`/g;
const upperBound = /\bPython(?:>=?\d[\d.]{0,9},)?<(=?)3\.(\d{1,2})(?![\d])/g;

/** Returns the newest Python older than a minor version that an explanation of uv says a package is for. */
export function olderPythonIn(explanation: string, minor: number): string | undefined {
  const bounds = [...explanation.matchAll(upperBound)].map(
    ([, isIncluded, bound]) => Number(bound) - (isIncluded === '' ? 1 : 0),
  );
  const tags = [...explanation.matchAll(abiTag)].map(([, tag]) => Number(tag));
  const older = [...bounds, ...tags].filter(one => one < minor && one >= oldestMinor);
  return older.length === 0 ? undefined : `3.${Math.max(...older)}`;
}

/** Wheels for older ones are not looked for. */
export const oldestMinor = 7;
