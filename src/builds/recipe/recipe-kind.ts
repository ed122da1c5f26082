import type { DefinitionRuntime, ShelllessBuild } from '../../images/sif/definition/index.ts';
import type { Platform } from '../../oci/naming.ts';
import type { CondaMaker, CondaSource } from './conda/conda-source.ts';
import type { BuilderReach } from './conda/install/builder-source.ts';
import type { SubmittedBuild } from './submitted.ts';
import type { CanonicalField } from './text/canonical-document.ts';

/** The source of an image, checked and normalised: two requests for the same image have equal sources. */
export interface Source {
  readonly kind: string;
}

/** What the key and the name of a build require from a kind of source. */
export interface SourceKind<S extends Source> {
  readonly kind: S['kind'];
  /** Returns everything that decides the content of the image, made by this maker. */
  keyFields(source: S, maker: Recipe['maker']): readonly CanonicalField[];
  /** Returns the tools that the image is named after; empty for a source that names none. */
  tools(source: S): readonly Tool[];
}

/** A tool that an image is named after. */
export interface Tool {
  readonly name: string;
  readonly version?: string | undefined;
}

/**
 * A kind of recipe, such as a Dockerfile. Each kind has a folder here and a line in `recipe-kinds.ts`. No other code
 * depends on the kind of a recipe.
 */
export interface RecipeKind<S extends Source> extends SourceKind<S> {
  /** True where Sluice writes the Dockerfile: its lines and stages mean nothing to the caller. */
  readonly isGenerated: boolean;
  /** True where symbolic links in the build context are replaced by their targets. */
  readonly followsLinks: boolean;
  /** How the lock file is attached to its image; undefined for a kind without lock files. */
  readonly lockFile: LockFileType | undefined;
  /**
   * Returns the source that a request specifies, checked and normalised; undefined for a request for another kind.
   * Throws a `Fault` (400) that names the field and the remedy.
   */
  read(request: RecipeRequest): S | undefined;
  /** Returns the recipe that makes the image. Pure: the same source and options give the same bytes. */
  recipe(source: S, options: RecipeOptions & RecipeSettings): Recipe;
  /** Returns the part of the caller's file that a failed step comes from; undefined if the step already names it. */
  partOf(step: string): FailedPart | undefined;
}

/** The fields of a request that specify what to build. */
export interface RecipeRequest {
  readonly submitted: SubmittedBuild &
    RecipeOptions & { readonly format?: 'docker' | 'sif' | undefined };
  readonly platforms: readonly Platform[];
}

/** The fields of a request that change how a recipe is read. */
export interface RecipeOptions {
  readonly buildArgs?: Readonly<Record<string, string>> | undefined;
  readonly noTest?: boolean | undefined;
  readonly labels?: Readonly<Record<string, string>> | undefined;
  readonly annotations?: Readonly<Record<string, string>> | undefined;
  readonly created?: string | undefined;
}

/** Settings that a recipe depends on, apart from its request. */
export interface RecipeSettings {
  /** The host of the registry that this service provides. */
  readonly ownHost?: string | undefined;
  /** What makes images of Conda packages. Default: `auto`. */
  readonly condaMaker?: CondaMaker | undefined;
  /** The Conda channels and Python indexes of the configuration. Default: none. */
  readonly condaChannels?: BuilderReach | undefined;
  /** True if Sluice can install packages of pip itself. Default: false. */
  readonly solvesPython?: boolean | undefined;
  /** How layers are compressed; undefined for the default, and for Singularity images. */
  readonly layers?: { readonly mode: string; readonly level?: number | undefined } | undefined;
  /** True if the request has a build context. */
  readonly hasContext?: boolean | undefined;
}

/** The recipe of an image. `maker` specifies what makes it. */
export type Recipe = BuildkitRecipe | NativeRecipe;

/** An image that BuildKit makes. */
export interface BuildkitRecipe extends BuilderRecipe {
  readonly maker: 'buildkit';
  /** What only a builder can do; absent for a kind that always requires one. */
  readonly builderReasons?: readonly string[];
}

/** An image of Conda packages that Sluice makes itself. BuildKit makes it if the packages turn out to require that. */
export interface NativeRecipe extends BuilderRecipe {
  readonly maker: 'native';
  readonly conda: CondaSource;
}

/** What BuildKit requires to make an image. */
interface BuilderRecipe {
  /** Text of the Dockerfile. */
  readonly dockerfile: string;
  /** Files of the build context: text by path. */
  readonly files: ReadonlyMap<string, string>;
  /** Warnings for the caller about a recipe that can be built; absent for none. */
  readonly warnings?: readonly string[];
  /** The caller's file from which the Dockerfile was made; absent for callers who sent none. */
  readonly original?: string;
  /** The stage that holds only the lock file; absent when there is none. */
  readonly lockStage?: string;
  /** Full names of Singularity images by their names in the Dockerfile; absent when there are none. */
  readonly sifBases?: Readonly<Record<string, string>>;
  /** Paths of SIF files in the build context by their names in the Dockerfile; absent when there are none. */
  readonly sifFiles?: Readonly<Record<string, string>>;
  /** What to build where a base image has no shell; absent where a shell is always needed. */
  readonly shellless?: ShelllessBuild;
  /** How a Singularity image runs, if the recipe specifies it. */
  readonly definition?: {
    readonly runtime: DefinitionRuntime;
    /** Warnings for the caller about a recipe that can be built. */
    readonly warnings: readonly string[];
  };
}

/** How a lock file is attached to its image. */
export interface LockFileType {
  readonly artifactType: string;
  /** Title of the lock file. */
  readonly title: string;
}

/** A part of the caller's file. */
export interface FailedPart {
  readonly name: string;
  /** How to fix the failure, as the end of a sentence; empty for no specific advice. */
  readonly advice: string;
}
