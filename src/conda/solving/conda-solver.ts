import { namedArchitectures } from '../../oci/naming.ts';
import type { CondaPackage } from '../conda-package.ts';
import type { ReportRepodata } from '../repodata/repodata-progress.ts';

/** An environment to solve. */
export interface SolveRequest {
  /** Match specifications. */
  readonly specs: readonly string[];
  /** Names or URLs in order of priority. */
  readonly channels: readonly string[];
  /** `linux-64` or `linux-aarch64`. */
  readonly subdir: string;
  readonly virtualPackages: readonly VirtualPackage[];
  /** Packages that stay as they are; the solver adds to them. */
  readonly locked?: readonly CondaPackage[] | undefined;
}

/** A property of the system, such as `__glibc` 2.39. */
export interface VirtualPackage {
  readonly name: string;
  readonly version: string;
  /** Default: `0`. */
  readonly build?: string | undefined;
}

export interface SolveOptions {
  readonly signal: AbortSignal;
  /** Receives lines for the log, such as a channel that is down and whose kept data is used. */
  readonly log: (line: string) => void;
  /** Receives how far the downloads of repository data are. */
  readonly report?: ReportRepodata | undefined;
  /** True for a caller without a login. Users wait for one of these at most. */
  readonly isAnonymous?: boolean | undefined;
}

/** Solves environments. */
export interface CondaSolver {
  /**
   * Returns the packages of the environment, sorted by name, with the records of their repository data. Throws a `Fault`:
   * 400 with the solver's explanation for an environment that has no solution, and for one above the limits.
   */
  solve(request: SolveRequest, options: SolveOptions): Promise<readonly CondaPackage[]>;
  /** Ends the worker. */
  close(): Promise<void>;
}

/** The system of an image, as far as packages depend on it. */
interface ImageSystem {
  /** `linux-64` or `linux-aarch64`. */
  readonly subdir: string;
  /** Version of the GNU C library. */
  readonly glibc: string;
  /** Version of CUDA to simulate; undefined for none. */
  readonly cuda?: string | undefined;
}

// Some packages require a minimum kernel. A container has the kernel of its host, which is not known: any that is still
// maintained is newer.
const kernel = '5.4';

/** Returns the virtual packages of a system. Source: CEP 30, conda, Managing virtual packages. */
export function virtualPackages({ subdir, glibc, cuda }: ImageSystem): readonly VirtualPackage[] {
  const architecture = namedArchitectures.find(([, names]) => names.subdir === subdir)?.[1].uname;
  return [
    { name: '__unix', version: '0' },
    { name: '__linux', version: kernel },
    { name: '__glibc', version: glibc },
    ...(architecture === undefined
      ? []
      : [{ name: '__archspec', version: '1', build: architecture }]),
    ...(cuda === undefined ? [] : [{ name: '__cuda', version: cuda }]),
  ];
}
