import { type CondaPackage, linkOrder } from '../../../conda/index.ts';
import { explicitLine } from '../../../conda/locks/index.ts';
import { Fault } from '../../../foundation/fault.ts';
import type { WheelFile } from '../../../pypi/index.ts';
import { commitAddress } from '../../../pypi/requirements/index.ts';
import type { RecipeOrigin } from '../../plan/build-plan.ts';
import type { CondaMaker, CondaSource, PlatformLock } from '../../recipe/conda/conda-source.ts';
import {
  type BuilderReach,
  builderSource,
  requireReachable,
} from '../../recipe/conda/install/builder-source.ts';
import { condaRecipe } from '../../recipe/conda/install/conda-recipe.ts';

/** The packages of an image require a builder, which only their solution or their archives have shown. */
export class BuilderRequired extends Error {
  /** What requires it, such as `the link script of fonts-conda-ecosystem`. */
  readonly reasons: readonly string[];
  /** The packages of each platform, where they are known: the builder installs these. */
  readonly solution: readonly SolvedPlatform[] | undefined;

  /** An older Python that may require no builder, such as `3.9`; undefined for none. */
  readonly olderPython: string | undefined;

  constructor(
    reasons: readonly string[],
    solution?: readonly SolvedPlatform[],
    olderPython?: string,
  ) {
    super(`a builder is required for ${reasons.join(', ')}`);
    this.reasons = reasons;
    this.solution = solution;
    this.olderPython = olderPython;
  }
}

/** Wheels of repositories must be built, whichever Python is chosen: all other packages of pip have wheels. */
export class RepositoriesRequired extends BuilderRequired {}

/** The packages of an image for one platform. */
export interface SolvedPlatform {
  /** `linux-64` or `linux-aarch64`. */
  readonly subdir: string;
  readonly packages: readonly CondaPackage[];
  /** Packages of PyPI. Default: none. */
  readonly wheels?: readonly WheelFile[] | undefined;
}

const uvRemedy =
  "Packages of pip that have wheels require no builder on a server with uv: run 'npm run uv' there, or install the PyPI package uv";

/** Returns the failure to get a builder with what requires one; every other failure as it is. */
export function withReasons(error: unknown, reasons: readonly string[] = []): unknown {
  const isAbout =
    error instanceof Fault && (error.kind === 'not-provided' || error.kind === 'unauthorized');
  if (!isAbout || reasons.length === 0) return error;
  const isForUv = reasons.some(reason => reason.startsWith("the 'pip' packages"));
  const remedy = isForUv ? `. ${uvRemedy}` : '';
  return error.withMessage(`${sentence(reasons)} a builder. ${error.message}${remedy}`);
}

/** The configuration of images of Conda packages. */
export interface BuilderRules {
  /** The setting `builds.conda`. Default: `auto`. */
  readonly conda?: CondaMaker | undefined;
  /** The settings `channels` and `pypi`. Default: none. */
  readonly condaChannels?: BuilderReach | undefined;
}

/**
 * Throws the {@link Fault} (400) for packages that require a builder, where `builds.conda` has Sluice make all images, and
 * where a builder cannot read their channels or the indexes of their wheels.
 *
 * @param solution the packages, where they are known: a builder installs these
 */
export function refuseBuilder(
  { conda, condaChannels }: BuilderRules,
  source: CondaSource,
  reasons: readonly string[],
  solution?: readonly SolvedPlatform[],
): void {
  requireBuilderAllowed({ conda }, reasons);
  const found = solution?.flatMap(({ wheels = [] }) => wheels.map(published).map(pipLine));
  requireReachable(source, reasons, condaChannels, found);
}

/** Throws the {@link Fault} (400) for what requires a builder, where `builds.conda` has Sluice make all images. */
export function requireBuilderAllowed(
  { conda }: Pick<BuilderRules, 'conda'>,
  reasons: readonly string[],
): void {
  if (conda !== 'native') return;
  throw new Fault(
    'bad-request',
    `${sentence(reasons)} a builder, and this server makes images of Conda packages without one: leave it out, or ask the operator for 'builds.conda: auto'`,
    { phase: 'build' },
  );
}

/** Returns the beginning of a sentence: `'condaOpts.commands' and the 'pip' packages require`. */
export function sentence(reasons: readonly string[]): string {
  const list = new Intl.ListFormat('en').format(reasons);
  const words = `${list.charAt(0).toUpperCase()}${list.slice(1)}`;
  const isPlural = reasons.length > 1 || /^the .*\bpackages\b/.test(list);
  return `${words} ${isPlural ? 'require' : 'requires'}`;
}

/** Returns a recipe with which a builder installs the packages that were found, without solving them again. */
export function foundRecipe(
  recipe: RecipeOrigin,
  source: CondaSource,
  solution: readonly SolvedPlatform[],
  reach: BuilderReach | undefined,
): RecipeOrigin {
  const locks = solution
    .map(({ subdir, packages, wheels = [] }): PlatformLock => {
      const urls = inOrder(source, packages).map(it => explicitLine(it.url, it));
      const pip = wheels
        .map(published)
        .map(it => pipLine({ ...it, url: reach?.indexes?.reached(it.url) ?? it.url }));
      return { subdir, urls, pip };
    })
    .sort((one, other) => (one.subdir < other.subdir ? -1 : 1));
  const [only, ...others] = locks;
  if (only === undefined) return recipe;
  const { dockerfile, files } = condaRecipe(
    reach ? builderSource(source, reach) : source,
    reach?.indexes,
    others.length === 0 ? { ...only, form: 'lock' } : { form: 'locks', platforms: locks },
  );
  return { ...recipe, dockerfile, files: Object.fromEntries(files) };
}

/** Returns the file of an index that a wheel is, or was built from. */
function published({ source, ...wheel }: WheelFile): WheelFile {
  return source ? { ...wheel, ...source } : wheel;
}

/** Returns a wheel as a line for pip, which fetches and verifies that file and looks up no name. */
function pipLine({ name, url, sha256, commit }: WheelFile): string {
  return `${name} @ ${commit ? commitAddress(commit) : `${url}#sha256=${sha256}`}`;
}

/** Returns packages in the order in which they can be installed. Those of a lock file are already in it. */
export function inOrder(
  { wanted }: CondaSource,
  packages: readonly CondaPackage[],
): readonly CondaPackage[] {
  if (wanted.form !== 'environment') return packages;
  // What packages given by their addresses require is unknown: the solver did not see them.
  const isSolved = ({ record }: CondaPackage) => record !== undefined;
  return [...linkOrder(packages.filter(isSolved)), ...packages.filter(one => !isSolved(one))];
}
