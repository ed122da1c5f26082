import type { Vulnerability } from './vulnerability.ts';

/** A package that a scanner saw in an image. */
export interface FoundPackage {
  readonly name: string;
  readonly version: string;
  /** Package URL. Source: ECMA-427. */
  readonly purl?: string;
  readonly licenses?: readonly string[];
  /** True for the operating system, with its name and version as in os-release. Default: false. */
  readonly isSystem?: boolean;
}

/** What was found in an image so far: what several platforms have is there once. */
export interface FoundInImage {
  readonly vulnerabilities: Map<string, Vulnerability>;
  /** Undefined where the scanner does not list packages. */
  packages: Map<string, FoundPackage> | undefined;
}
