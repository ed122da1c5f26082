import {
  type BuildFields,
  type BuildPlaces,
  readPlatforms,
  type SubmittedPackages,
} from '../builds/plan/index.ts';
import type { ImageChange, LayeredConfig } from '../images/augment/index.ts';
import type { Digest } from '../oci/digest.ts';
import type { Descriptor } from '../oci/index.ts';
import { defaultPlatformName, type Reference } from '../oci/naming.ts';
import type { Claim, Identity } from '../platform/index.ts';
import type { ContainerToken } from './tokens/container-token.ts';

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
  /** Images whose files are added to the image. */
  readonly containerIncludes?: readonly string[] | undefined;
  readonly timestamp?: string | undefined;
  readonly fingerprint?: string | undefined;
  /** Id of the run at the platform that the request is made for. */
  readonly workflowId?: string | undefined;
  readonly dryRun?: boolean | undefined;
  /** `required`: the image can be pulled once a scan has found nothing outside of `scanLevels`. */
  readonly scanMode?: 'none' | 'async' | 'required' | undefined;
  readonly scanLevels?: readonly string[] | undefined;
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

/** The caller, as far as it is known. */
export interface Caller extends Partial<Identity> {
  /** IP address. */
  readonly address: string;
  /** Network of the address, for callers without a login: its requests and content are limited. */
  readonly network?: string | undefined;
}

/** The image that a name resolved to when it was requested, and the image that is served for it. */
export interface FixedImage {
  /** Manifest or index of the base. */
  readonly base: ManifestName;
  /** The index that the base was chosen from for its platform. */
  readonly root?: Digest;
  readonly served: ManifestName;
  /** Manifests and configs that were written for it, or that its registry showed when it was requested. */
  readonly members?: readonly Digest[];
}

export type ManifestName = Pick<Descriptor, 'mediaType' | 'digest'>;

/** Fields of the submission, as it was sent. The recipe is in the plan of its build. */
export type AskedFields = Readonly<
  Pick<
    Submission,
    | 'containerImage'
    | 'containerIncludes'
    | 'buildRepository'
    | 'cacheRepository'
    | 'nameStrategy'
    | 'format'
    | 'freeze'
    | 'mirror'
    | 'platformWorkspaceId'
    | 'workflowId'
  > & {
    /** Without the environment file, which is in the plan of the build. Credentials in addresses are masked. */
    readonly packages?: Omit<SubmittedPackages, 'environment'> | undefined;
  }
>;

/** A run at a workflow platform that a name ends with. */
export interface RunOfName {
  /** Hex. The same for all names of one caller and one run. */
  readonly key: string;
  /** `host[:port]` */
  readonly platform: string;
  readonly id: string;
}

/** The scan that a request asks for. */
export interface WantedScan {
  /** Random, because whoever has it can read the result. */
  readonly id: string;
  readonly mode: 'async' | 'required';
  /** Severities that the caller accepts. */
  readonly levels: readonly string[];
}

/** All data that a pull through the token requires. It never changes, except its end. */
export interface ContainerRequest {
  readonly token: ContainerToken;
  /** Identifies the request in logs without giving access. */
  readonly label: string;
  /** In ms since the epoch, like all times here. */
  readonly createdAt: number;
  readonly expiresAt: number;
  /** The run that it ends with. */
  readonly run?: RunOfName | undefined;
  readonly caller: Caller;
  /** The image as requested, or as built. */
  readonly image: Reference;
  /** Id of the build of the image. */
  readonly buildId?: string | undefined;
  /** True if the request specified a recipe, not an image. */
  readonly isBuilt?: boolean;
  /** True if the image is pushed to a repository under its own name: it is not served under the token. */
  readonly isFrozen?: boolean;
  /** The served image; undefined for an image that was not built yet when it was requested. */
  readonly fixed: FixedImage | undefined;
  readonly change: ImageChange;
  /** The included images, by digest: who pulls must have the right to them, too. */
  readonly includes?: readonly Reference[] | undefined;
  /** True if registries showed all parts without credentials at the time of the request. */
  readonly isPublic?: boolean;
  /** `host/prefix/token/repository[:tag|@digest]`, or the name of a frozen image. */
  readonly targetImage: string;
  /** What the caller asked for; absent in requests of earlier versions. */
  readonly asked?: AskedFields | undefined;
  readonly platform?: string | undefined;
  readonly fingerprint?: string | undefined;
  readonly timestamp?: string | undefined;
  /** The scan of the image. */
  readonly scan?: WantedScan | undefined;
  /** True if one of the layers is a mounted file system: its pulls are counted separately. */
  readonly isMounted: boolean;
}

/**
 * Returns the architecture that a request is counted for: that of its one platform. Undefined for several platforms, and
 * for an image with all of its platforms.
 */
export function countedArchitecture(
  platform: string | undefined,
  isRecipe: boolean,
): string | undefined {
  const named = platform ?? (isRecipe ? defaultPlatformName : undefined);
  const [one, ...others] = named === undefined ? [] : readPlatforms(named);
  return others.length === 0 ? one?.architecture : undefined;
}

/**
 * Returns a request for a frozen image that asks for the default repository with that of its user. The repository of the
 * operator goes first; a request of a caller without one stays as it is.
 */
export function inHome(
  submission: Submission,
  { home }: Pick<Caller, 'home'>,
  { frozen, homes }: Pick<BuildPlaces, 'frozen' | 'homes'>,
): Submission {
  const { freeze, defaultRepository, buildRepository, format = 'docker' } = submission;
  if (!freeze || !defaultRepository || buildRepository !== undefined) return submission;
  if (!homes || home === undefined || frozen[format] !== undefined) return submission;
  return { ...submission, buildRepository: `${home}/${format === 'sif' ? 'sif' : 'frozen'}` };
}
