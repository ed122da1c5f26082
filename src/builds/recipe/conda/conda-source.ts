/** Conda packages: to be solved, or locked already. */
export interface CondaSource {
  readonly kind: 'conda';
  readonly wanted: CondaWanted;
  /** Where packages come from, in order of priority; never empty. */
  readonly channels: readonly string[];
  readonly options: CondaOptions;
}

export type CondaWanted = CondaEnvironment | CondaLock | CondaLockUrl;

/** An environment that the package manager has to solve. */
export interface CondaEnvironment {
  readonly form: 'environment';
  /** `name:` of the environment file. The image is named after it; what is in the image does not depend on it. */
  readonly name?: string;
  /** Match specifications and URLs of packages, sorted, each once. */
  readonly packages: readonly string[];
  /** Requirements and options for pip, in the given order. */
  readonly pip: readonly string[];
  /** Environment variables, `NAME=value` each, sorted by name. */
  readonly variables: readonly string[];
}

/** The content of an explicit lock file: exactly these packages, nothing is solved. */
export interface CondaLock {
  readonly form: 'lock';
  /** URLs of packages, as a rule with `#` and an MD5 or SHA-256, in the given order. */
  readonly urls: readonly string[];
  /** Requirements of the `# pip ` lines, in the given order. */
  readonly pip: readonly string[];
}

/** A lock file that the builder fetches. */
export interface CondaLockUrl {
  readonly form: 'lockUrl';
  readonly url: string;
}

export interface CondaOptions {
  /** The image with the package manager in it, in which the environment is made. */
  readonly mambaImage: string;
  /** The image that the environment is put into. */
  readonly baseImage: string;
  /** Match specifications of what every image gets, sorted, each once. */
  readonly basePackages: readonly string[];
  /** What is done in the image at last, in the given order: lines of a Dockerfile. */
  readonly commands: readonly string[];
}
