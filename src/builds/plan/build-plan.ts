import type { ImageChange } from '../../images/augment/index.ts';
import type {
  Compression,
  DefinitionRuntime,
  ShelllessBuild,
} from '../../images/sif/definition/index.ts';
import type { Digest } from '../../oci/digest.ts';
import type { CondaSource } from '../recipe/conda/conda-source.ts';
import type { RecipeKindName } from '../recipe/recipe-kinds.ts';
import type { BuildOptions, NamedContexts } from './build-options.ts';

/** Everything that a build requires and that decides its result, without credentials. It is stored as JSON. */
export interface BuildPlan {
  /** The same key means the same image. */
  readonly key: string;
  /** The resulting image, `registry/repository:tag`. */
  readonly target: string;
  /** The recipe or image that the build starts from. */
  readonly origin: RecipeOrigin | ImageOrigin;
  /** The changes in the image itself (freeze); other changes are made when the image is served. */
  readonly change: ImageChange;
  /** Options of the Singularity image; undefined for other images. */
  readonly sif?: SifPlan | undefined;
  /** True for a copy of an image as it is, with what refers to it. The tag of the target may move to other images. */
  readonly mirror?: true;
}

/** Returns the name by which clients pull the image: Singularity images are pulled through ORAS. */
export function pullName({ target, sif }: Pick<BuildPlan, 'target' | 'sif'>): string {
  return sif ? `oras://${target}` : target;
}

/** Returns the recipe of a plan; undefined for an existing image, which is only changed and copied. */
export function recipeIn({ origin }: Pick<BuildPlan, 'origin'>): RecipeOrigin | undefined {
  return origin.kind === 'recipe' ? origin : undefined;
}

/** Returns true for a plan that BuildKit carries out. */
export function needsBuilder(plan: BuildPlan): boolean {
  const recipe = recipeIn(plan);
  return recipe !== undefined && recipe.native === undefined;
}

/** Returns true for a plan with secrets or SSH keys, which come with each request. */
export function needsSecrets(plan: BuildPlan): boolean {
  const { secretIds, sshIds } = recipeIn(plan)?.options ?? {};
  return secretIds !== undefined || sshIds !== undefined;
}

/** Returns true for a plan that Sluice carries out itself, unless the packages require a builder. */
export function isNative(plan: BuildPlan): boolean {
  return recipeIn(plan)?.native !== undefined;
}

/** A Singularity image, made from an image of one platform. */
export interface SifPlan {
  readonly definition: DefinitionRuntime;
  /** Default: gzip. */
  readonly compression?: Compression;
  /** Warnings for the caller about a definition file that can be built. */
  readonly warnings?: readonly string[];
}

/** An image that BuildKit makes, or Sluice itself. */
export interface RecipeOrigin {
  readonly kind: 'recipe';
  /** The kind of the recipe. */
  readonly recipe: RecipeKindName;
  readonly dockerfile: string;
  /** The caller's file from which the Dockerfile was made, for people; absent where there is none. */
  readonly original?: string | undefined;
  /** Files of the build context: text by path. */
  readonly files: Readonly<Record<string, string>>;
  /** The stage that contains only the lock file of the environment, if there is one. */
  readonly lockStage: string | undefined;
  /** Platforms in the form `linux/amd64`; several platforms make an index. */
  readonly platforms: readonly string[];
  /** The packages of an image that Sluice makes itself; undefined for one that requires a builder. */
  readonly native?: CondaSource | undefined;
  /** What only a builder can do for the packages of this recipe. */
  readonly builderReasons?: readonly string[] | undefined;
  /** Warnings for the caller about the recipe. */
  readonly warnings?: readonly string[] | undefined;
  /** The base images; the caller must be able to pull them. */
  readonly baseImages: readonly string[];
  /** Repository of the layer cache, `registry/repository`. */
  readonly cache: string | undefined;
  /** The frontend that replaces the one the Dockerfile names: `builder` or an image. */
  readonly frontend?: string | undefined;
  /** The build context in the content store: a tar.gz file, or the manifest of one that was uploaded as an artifact. */
  readonly context?: Digest | undefined;
  /** True where the context is an artifact. */
  readonly isUploaded?: true;
  /** True where the `.dockerignore` of the context is an ordinary file. */
  readonly isFiltered?: true;
  /** The options of the build, without the caller's secrets. */
  readonly options?: BuildOptions | undefined;
  /** Compression of the layers that the build makes. Default: gzip. */
  readonly layers?: LayerCompression | undefined;
  /** Images that replace other images or stages. */
  readonly namedContexts?: NamedContexts | undefined;
  /** Singularity images by their names in the Dockerfile: each is replaced by an image made from it. */
  readonly sifBases?: NamedContexts | undefined;
  /** Paths of SIF files in the build context by their names in the Dockerfile: likewise. */
  readonly sifFiles?: Readonly<Record<string, string>> | undefined;
  /** What to build where a base image has no shell. */
  readonly shellless?: ShelllessBuild | undefined;
  /** True to give the files of the context the modes that `cp` gives its copies. */
  readonly hasCopyModes?: true;
}

/** Compression of the layers that a build makes. */
export interface LayerCompression {
  readonly mode: 'gzip' | 'zstd' | 'estargz';
  /** Default: that of the builder, or of layers of packages. */
  readonly level?: number;
  /** True to compress the layers of base images again, too. */
  readonly force?: true;
}

/** An existing image. */
export interface ImageOrigin {
  readonly kind: 'image';
  /** `registry/repository` */
  readonly repository: string;
  /** Digest of the manifest or index. */
  readonly digest: Digest;
  readonly mediaType: string;
}
