import { condaKind } from './conda/conda-kind.ts';
import { definitionKind } from './definition/definition-kind.ts';
import { dockerfileKind } from './dockerfile/dockerfile-kind.ts';
import { type ImageSource, imageKind } from './image-source.ts';
import type { RecipeKind, Source, SourceKind } from './recipe-kind.ts';

/** All kinds of recipe. The first kind that can read a request is the kind of the request. */
export const recipeKinds = [definitionKind, dockerfileKind, condaKind] as const;

type SourceOf<Kind> = Kind extends SourceKind<infer S> ? S : never;

/** The source of a recipe. */
export type RecipeSource = SourceOf<(typeof recipeKinds)[number]>;

/** The source of an image. */
export type BuildSource = RecipeSource | ImageSource;

export type RecipeKindName = RecipeSource['kind'];

const byName = new Map<string, unknown>([...recipeKinds, imageKind].map(kind => [kind.kind, kind]));

/** Returns the kind of a source. */
export function sourceKindOf<S extends BuildSource>({ kind }: S): SourceKind<S> {
  return byName.get(kind) as SourceKind<S>;
}

/** Returns the kind of a recipe by its name. */
export function recipeKindNamed(name: RecipeKindName): RecipeKind<Source> {
  return byName.get(name) as RecipeKind<Source>;
}
