import type { DefinitionRuntime } from '../../images/sif/definition/definition-runtime.ts';
import type { Platform } from '../../oci/platform.ts';
import type { SubmittedBuild } from './submitted.ts';
import type { CanonicalField } from './text/canonical-document.ts';

/** What an image is built from, checked and normalised: two requests for the same have equal sources. */
export interface Source {
  readonly kind: string;
}

/** What the key and the name of a build need of a kind of source. */
export interface SourceKind<S extends Source> {
  readonly kind: S['kind'];
  /** Returns all that decides what is in the image. */
  keyFields(source: S): readonly CanonicalField[];
  /** Returns what the image is named after; nothing for a source that names no tools. */
  tools(source: S): readonly Tool[];
}

/** Something that an image is named after. */
export interface Tool {
  readonly name: string;
  readonly version?: string | undefined;
}

/**
 * A kind of recipe, such as a Dockerfile. Each kind has a folder here, and a line in `recipe-kinds.ts`: no other code
 * asks which kind a recipe is of.
 */
export interface RecipeKind<S extends Source> extends SourceKind<S> {
  /** True where Sluice writes the Dockerfile: its lines and stages mean nothing to the caller. */
  readonly isGenerated: boolean;
  /** True where symbolic links in the build context are replaced by the files that they lead to. */
  readonly followsLinks: boolean;
  /** How the lock file is attached to its image; undefined for a kind without lock files. */
  readonly lockFile: LockFileType | undefined;
  /**
   * Returns what a request asks for, checked and normalised; undefined for a request for another kind. Throws a
   * `Fault` (400) that names the field and the remedy.
   */
  read(request: RecipeRequest): S | undefined;
  /** Returns what makes the image. Pure: the same source and options give the same bytes. */
  recipe(source: S, options: RecipeOptions & RecipeSettings): Recipe;
  /** Returns the part of the caller's file that a failed step comes from; undefined where the step names it. */
  partOf(step: string): FailedPart | undefined;
}

/** The fields of a request that say what to build. */
export interface RecipeRequest {
  readonly submitted: SubmittedBuild &
    RecipeOptions & { readonly format?: 'docker' | 'sif' | undefined };
  readonly platforms: readonly Platform[];
}

/** The fields of a request that change how a recipe is read. */
export interface RecipeOptions {
  readonly buildArgs?: Readonly<Record<string, string>> | undefined;
  readonly noTest?: boolean | undefined;
}

/** What a recipe depends on besides its request. */
export interface RecipeSettings {
  /** The host of the registry that this service provides. */
  readonly ownHost?: string | undefined;
}

/**
 * What makes an image. `maker` is what does it: an image that is made without BuildKit is another type with its own
 * maker, in a union with this one.
 */
export interface Recipe {
  readonly maker: 'buildkit';
  /** Text of the Dockerfile. */
  readonly dockerfile: string;
  /** Files of the build context: text by path. */
  readonly files: ReadonlyMap<string, string>;
  /** The stage that holds only the lock file; absent when there is none. */
  readonly lockStage?: string;
  /** Full names of Singularity images by the names that the Dockerfile has for them; absent when there are none. */
  readonly sifBases?: Readonly<Record<string, string>>;
  /** How a Singularity image runs, where the recipe says so. */
  readonly definition?: {
    readonly runtime: DefinitionRuntime;
    /** What the caller should know although the recipe can be built. */
    readonly warnings: readonly string[];
  };
}

/** How a lock file is attached to its image. */
export interface LockFileType {
  readonly artifactType: string;
  /** The name of its file. */
  readonly title: string;
}

/** A part of the caller's file. */
export interface FailedPart {
  readonly name: string;
  /** What to do about its failure, as the end of the sentence; empty for nothing in particular. */
  readonly advice: string;
}
