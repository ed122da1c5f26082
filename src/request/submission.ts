import type { BuildOptionsWish } from '../builds/plan/build-options.ts';
import type { SubmittedCompression } from '../builds/plan/sif-compression.ts';
import type { SubmittedPackages } from '../builds/recipe/submitted.ts';
import type { Claim } from '../platform/identities.ts';

/** A layer as a client describes it; what it says of digests and size is yet to be proved. */
export interface SubmittedLayer {
  /** `http(s)://...`, or `data:` and base64. */
  readonly location: string;
  readonly gzipDigest?: string | undefined;
  readonly gzipSize?: number | undefined;
  readonly tarDigest?: string | undefined;
}

export interface SubmittedConfig {
  readonly entrypoint?: readonly string[] | undefined;
  readonly cmd?: readonly string[] | undefined;
  readonly env?: readonly string[] | undefined;
  readonly workingDir?: string | undefined;
  readonly layers?: readonly SubmittedLayer[] | undefined;
}

/** A container request as it comes from a client, its fields well-formed each for itself. */
export interface Submission extends Claim, BuildOptionsWish {
  readonly containerImage?: string | undefined;
  readonly containerFile?: string | undefined;
  readonly containerConfig?: SubmittedConfig | undefined;
  readonly condaFile?: string | undefined;
  readonly spackFile?: string | undefined;
  readonly containerPlatform?: string | undefined;
  readonly buildRepository?: string | undefined;
  readonly cacheRepository?: string | undefined;
  readonly timestamp?: string | undefined;
  readonly fingerprint?: string | undefined;
  readonly freeze?: boolean | undefined;
  readonly dryRun?: boolean | undefined;
  readonly format?: 'docker' | 'sif' | undefined;
  readonly packages?: SubmittedPackages | undefined;
  readonly nameStrategy?: 'none' | 'tagPrefix' | 'imageSuffix' | undefined;
  /** Files that the build may use. */
  readonly buildContext?:
    | (SubmittedLayer & { readonly isFiltered?: boolean | undefined })
    | undefined;
  /** Image by the name of what it takes the place of. */
  readonly namedContexts?: Readonly<Record<string, string>> | undefined;
  /** The %test of a definition file is not run. */
  readonly noTest?: boolean | undefined;
  readonly buildCompression?: SubmittedCompression | undefined;
}

/** Which endpoint the submission came in by: the deprecated one knows fewer fields. */
export type ApiVersion = 'v1alpha1' | 'v1alpha2';

/** Returns true if an image must be built, frozen or converted; false if an existing image is served. */
export function isToBeMade(submission: Submission): boolean {
  const { containerFile, condaFile, spackFile, packages, freeze } = submission;
  const recipes = [containerFile, condaFile, spackFile, packages];
  return freeze === true || recipes.some(recipe => recipe !== undefined);
}
