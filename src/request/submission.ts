import type { BuildFields } from '../builds/plan/index.ts';
import type { LayeredConfig } from '../images/augment/index.ts';
import type { Claim } from '../platform/index.ts';

/** A layer as a client describes it: its digests and its size are not verified yet. */
export interface SubmittedLayer {
  /** `http(s)://...`, or `data:` and base64. */
  readonly location: string;
  readonly gzipDigest?: string | undefined;
  readonly gzipSize?: number | undefined;
  readonly tarDigest?: string | undefined;
}

/** A container request as a client sends it: each of its fields is well-formed. */
export interface Submission extends Claim, BuildFields {
  readonly containerImage?: string | undefined;
  readonly containerConfig?: LayeredConfig<SubmittedLayer> | undefined;
  readonly timestamp?: string | undefined;
  readonly fingerprint?: string | undefined;
  readonly dryRun?: boolean | undefined;
  /** Files that the build may use. */
  readonly buildContext?:
    | (SubmittedLayer & { readonly isFiltered?: boolean | undefined })
    | undefined;
}

/** The API version of a request: the deprecated version has fewer fields. */
export type ApiVersion = 'v1alpha1' | 'v1alpha2';

/** Returns true if an image must be built, copied, frozen or converted; false if an existing image is served. */
export function isToBeMade(submission: Submission): boolean {
  const { containerFile, condaFile, spackFile, packages, freeze, mirror } = submission;
  const recipes = [containerFile, condaFile, spackFile, packages];
  return freeze === true || mirror === true || recipes.some(recipe => recipe !== undefined);
}
