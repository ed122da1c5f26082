import type { ProjectParts, PythonLockForm } from '../../../pypi/locks/index.ts';
import { isPackageUrl } from './package-spec.ts';

/** What makes images of Conda packages: `auto` requires a builder only for what Sluice cannot do itself. */
export type CondaMaker = 'auto' | 'native' | 'buildkit';

/** Conda packages: still to be solved, or already locked. */
export interface CondaSource {
  readonly kind: 'conda';
  readonly wanted: CondaWanted;
  /** Channels in order of priority; never empty. */
  readonly channels: readonly string[];
  readonly options: CondaOptions;
}

export type CondaWanted = CondaEnvironment | CondaLock | CondaLocks | CondaLockUrl;

/** An environment that the package manager has to solve. */
export interface CondaEnvironment {
  readonly form: 'environment';
  /** `name:` of the environment file. The image is named after it, but its content does not depend on it. */
  readonly name?: string;
  /** Match specifications and URLs of packages, sorted, each once. */
  readonly packages: readonly string[];
  /** Requirements and options for pip, in the given order. */
  readonly pip: readonly string[];
  /** Environment variables, `NAME=value` each, sorted by name. */
  readonly variables: readonly string[];
  /** What the request left out of a file; absent for nothing. */
  readonly leftOut?: readonly string[] | undefined;
  /** A lock file of Python packages, which brings its Python; absent for none. */
  readonly pythonLock?: PythonLockFile | undefined;
}

export interface PythonLockFile {
  readonly file: PythonLockForm;
  readonly text: string;
  readonly parts: ProjectParts;
}

/** The content of an explicit lock file: exactly these packages, without solving. */
export interface CondaLock {
  readonly form: 'lock';
  /** URLs of packages in the given order, usually with `#` and an MD5 or SHA-256. */
  readonly urls: readonly string[];
  /**
   * The SHA-256 of each package whose URL has its MD5, in the same order; an empty text where the file does not state both.
   * Undefined for a file that states both of no package.
   */
  readonly sha256s?: readonly string[] | undefined;
  /** Requirements of the `# pip ` lines, in the given order. */
  readonly pip: readonly string[];
  /** Categories or environments of the file that are not installed, in quotes; absent for none. */
  readonly leftOut?: readonly string[] | undefined;
}

/** The content of a lock file with other packages for each of several platforms. */
export interface CondaLocks {
  readonly form: 'locks';
  /** At least two, sorted by their platforms. */
  readonly platforms: readonly PlatformLock[];
}

/** The packages of one platform. */
export interface PlatformLock extends Omit<CondaLock, 'form'> {
  /** `linux-64` or `linux-aarch64`. */
  readonly subdir: string;
}

/** A lock file that the builder fetches. */
export interface CondaLockUrl {
  readonly form: 'lockUrl';
  readonly url: string;
}

export interface CondaOptions {
  /** The image that contains the package manager and in which the environment is made. */
  readonly mambaImage: string;
  /** The image that receives the environment. */
  readonly baseImage: string;
  /** Match specifications of the packages that every image gets, sorted, each once. */
  readonly basePackages: readonly string[];
  /** Final steps in the image, in the given order: lines of a Dockerfile. */
  readonly commands: readonly string[];
}

/** Returns the URLs of packages in a source, as they are requested. */
export function packageUrlsIn(wanted: CondaWanted): readonly string[] {
  switch (wanted.form) {
    case 'environment':
      return wanted.packages.filter(isPackageUrl);
    case 'lock':
      return wanted.urls;
    case 'locks':
      return wanted.platforms.flatMap(({ urls }) => urls);
    case 'lockUrl':
      return [];
  }
}

/** Returns the categories or environments of a lock file that are not installed. */
export function leftOutIn(wanted: CondaWanted): readonly string[] {
  if (wanted.form === 'lock') return wanted.leftOut ?? [];
  if (wanted.form !== 'locks') return [];
  return [...new Set(wanted.platforms.flatMap(({ leftOut = [] }) => leftOut))].sort();
}

/** Returns the requirements for pip in a source; those in a lock file at an address are unknown. */
export function pipIn(wanted: CondaWanted): readonly string[] {
  switch (wanted.form) {
    case 'environment':
    case 'lock':
      return wanted.pip;
    case 'locks':
      return wanted.platforms.flatMap(({ pip }) => pip);
    case 'lockUrl':
      return [];
  }
}
