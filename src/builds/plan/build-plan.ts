import type { ImageChange } from '../../images/augment/image-change.ts';
import type { DefinitionRuntime } from '../../images/sif/definition/definition-runtime.ts';
import type { Compression } from '../../images/sif/squashfs/compression.ts';
import type { Digest } from '../../oci/digest.ts';
import type { RecipeKindName } from '../recipe/recipe-kinds.ts';
import type { BuildOptions } from './build-options.ts';
import type { NamedContexts } from './named-contexts.ts';

/** Everything that a build needs and that decides its result, without credentials: it is stored as JSON. */
export interface BuildPlan {
  /** Same key, same image. */
  readonly key: string;
  /** The image that it makes, `registry/repository:tag`. */
  readonly target: string;
  /** The recipe or image that the build starts from. */
  readonly origin: RecipeOrigin | ImageOrigin;
  /** The changes in the image itself (freeze); other changes are made when the image is served. */
  readonly change: ImageChange;
  /** How the Singularity image is made; undefined for other images. */
  readonly sif?: SifPlan | undefined;
}

/** Returns the name by which clients pull the image: Singularity images are pulled through ORAS. */
export function pullName({ target, sif }: Pick<BuildPlan, 'target' | 'sif'>): string {
  return sif ? `oras://${target}` : target;
}

/** Returns the recipe of a plan; undefined for an image that exists, which is only changed and copied. */
export function recipeIn({ origin }: Pick<BuildPlan, 'origin'>): RecipeOrigin | undefined {
  return origin.kind === 'recipe' ? origin : undefined;
}

/** True for a plan that BuildKit carries out. */
export function needsBuilder(plan: BuildPlan): boolean {
  return recipeIn(plan) !== undefined;
}

/** A Singularity image, which is made of an image of one platform. */
export interface SifPlan {
  readonly definition: DefinitionRuntime;
  /** Default: gzip. */
  readonly compression?: Compression;
  /** What the caller should know although the definition file can be built. */
  readonly warnings?: readonly string[];
}

/** An image that BuildKit makes. */
export interface RecipeOrigin {
  readonly kind: 'recipe';
  /** The kind of the recipe. */
  readonly recipe: RecipeKindName;
  readonly dockerfile: string;
  /** The build context: text by path. */
  readonly files: Readonly<Record<string, string>>;
  /** The stage whose files are the lock file of the environment, where there is one. */
  readonly lockStage: string | undefined;
  /** `linux/amd64`; several make an index. */
  readonly platforms: readonly string[];
  /** The base images; the caller must be able to pull them. */
  readonly baseImages: readonly string[];
  /** Where layers are cached, `registry/repository`. */
  readonly cache: string | undefined;
  /** The frontend that reads the Dockerfile instead of the one that it names: `builder` or an image. */
  readonly frontend?: string | undefined;
  /** The build context in the content store: a tar.gz file, or the manifest of one that was uploaded as an artifact. */
  readonly context?: Digest | undefined;
  /** True where the context is an artifact. */
  readonly isUploaded?: true;
  /** True where the `.dockerignore` of the context is a file like others. */
  readonly isFiltered?: true;
  /** The options of the build, without the caller's secrets. */
  readonly options?: BuildOptions | undefined;
  /** Images that take the place of others, or of stages. */
  readonly namedContexts?: NamedContexts | undefined;
  /** Singularity images by what the Dockerfile calls them: an image is made of each, in their places. */
  readonly sifBases?: NamedContexts | undefined;
}

/** An image that exists. */
export interface ImageOrigin {
  readonly kind: 'image';
  /** `registry/repository` */
  readonly repository: string;
  /** The manifest or index. */
  readonly digest: Digest;
  readonly mediaType: string;
}
