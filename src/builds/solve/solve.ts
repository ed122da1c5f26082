import { Fault } from '../../foundation/fault.ts';
import type { Attach } from '../../images/attach.ts';
import { type InjectedLayer, layersIn } from '../../images/augment/image-change.ts';
import type { Documents } from '../../images/documents.ts';
import type { ImageMaker } from '../../images/image-maker.ts';
import type { MadeOf } from '../../images/made-blobs.ts';
import type { Publish } from '../../images/publish.ts';
import type { Digest } from '../../oci/digest.ts';
import type { Document } from '../../oci/document.ts';
import { manifestType } from '../../oci/manifest.ts';
import { formatReference, parseReference, type Reference } from '../../oci/reference.ts';
import type { Access } from '../../upstream/access.ts';
import type { ImageOrigin, RecipeOrigin } from '../plan/build-plan.ts';
import type { LockFileType } from '../recipe/recipe-kind.ts';
import { recipeKindNamed } from '../recipe/recipe-kinds.ts';
import type { BuildRights, RightsOf } from './build-rights.ts';
import type { BuildRun, Solve } from './build-run.ts';
import type { RedateImage } from './dating/redate-image.ts';
import type { RecipeResult, RunRecipe } from './run-recipe.ts';
import type { MakeSif } from './sif/make-sif.ts';
import type { StageSifBases } from './sif/stage-sif-bases.ts';

export interface SolveDeps {
  readonly runRecipe: RunRecipe;
  readonly documents: Documents;
  readonly makeImage: ImageMaker;
  readonly redate: RedateImage;
  readonly publish: Publish;
  readonly makeSif: MakeSif;
  readonly stageSifBases: StageSifBases;
  readonly attach: Attach;
  readonly rightsOf: RightsOf;
  /** Repositories of intermediate images. */
  readonly staging: Staging;
}

/** Provides a hosted repository for the intermediate images of each build. */
export interface Staging {
  /** The host of these repositories. */
  readonly host: string;
  repositoryOf(buildId: string): Reference;
  /** Removes the images of a build, including those of an earlier attempt. */
  drop(buildId: string): Promise<void>;
}

/**
 * Returns the function that runs a build: it makes or finds the image, applies the changes of the plan, and pushes the
 * result to its target.
 */
export function createSolve(deps: SolveDeps): Solve {
  const { documents, staging } = deps;

  /** Makes an image with the changes of the plan. */
  const bake = async (
    { plan }: BuildRun,
    rights: BuildRights,
    { repository, digest, mediaType, written }: Placed,
  ): Promise<MadeOf> => {
    const source = await rights.access(parseReference(repository));
    const base = await documents.manifest(source, digest, mediaType);
    const { root, generated } = await deps.makeImage(source, base, plan.change);
    return {
      image: { root, generated: new Map([...(written?.generated ?? []), ...generated]) },
      added: [...(written?.layers ?? []), ...layersIn(plan.change)].map(
        ({ gzipDigest }) => gzipDigest,
      ),
      source,
    };
  };

  /** Pushes the image to the target of the plan, in the requested format. */
  const deliver = async (run: BuildRun, rights: BuildRights, placed: Placed) => {
    const { plan, log, signal } = run;
    const made = await bake(run, rights, placed);
    const { tag = 'latest', ...repository } = parseReference(plan.target);
    const target = await rights.access(repository);
    if (plan.sif) return deps.makeSif(run, made, plan.sif, { ...target, tag });
    await deps.publish({ ...made, target, tag }, line => log.write(line), signal);
    const { root } = made.image;
    return { digest: root.digest, mediaType: manifestType(root) };
  };

  const runRecipe = (
    { plan: { key }, owner, isTrusted, secrets, log, signal }: BuildRun,
    rights: BuildRights,
    recipe: RecipeOrigin,
    target: Reference,
  ): Promise<RecipeResult> => {
    const pushed = [formatReference(target), recipe.cache].filter(name => name !== undefined);
    const access = rights.forBuilder({ pulled: recipe.baseImages, pushed });
    const customer = isTrusted ? 'known' : 'stranger';
    return deps.runRecipe({ key, recipe, target, access, customer, owner, secrets, log, signal });
  };

  /** Makes the image of a recipe and pushes it to the target of the plan. */
  const makeFromRecipe = async (run: BuildRun, rights: BuildRights, recipe: RecipeOrigin) => {
    const { plan, id, log, signal } = run;
    const target = parseReference(plan.target);
    const isStaged = plan.sif !== undefined || target.registry === staging.host;
    // An intermediate image has no tag: clients must not see it under the promised name.
    const { tag: _, ...place } = isStaged ? staging.repositoryOf(id) : target;
    try {
      const ready = recipe.sifBases ? await deps.stageSifBases(run, rights, recipe, place) : recipe;
      const made = await runRecipe(run, rights, ready, place);
      const source = await rights.access(place);
      const image = await documents.manifest(source, made.digest, made.mediaType);
      const { created } = recipe.options ?? {};
      const written = await deps.redate(source, image, created, line => log.write(line), signal);
      const { digest } = written.root;
      const mediaType = manifestType(written.root);
      const placed = { repository: formatReference(place), digest, mediaType, written };
      return { ...(await deliver(run, rights, placed)), lockFile: made.lockFile };
    } finally {
      if (isStaged) await staging.drop(id);
    }
  };

  /** Attaches the lock file to its image. A registry that rejects the lock file still has the image. */
  const attachLockFile = async (
    { plan, log, signal }: BuildRun,
    rights: BuildRights,
    { digest, mediaType }: Pick<ImageOrigin, 'digest' | 'mediaType'>,
    lockFile: string,
    type: LockFileType,
  ) => {
    try {
      const target = await rights.access(parseReference(plan.target));
      const image = await documents.manifest(target, digest, mediaType);
      const content = Buffer.from(lockFile);
      const tag = await deps.attach(target, image, { ...type, content }, signal);
      if (tag !== undefined) log.write(listedByTag(target, tag));
    } catch (error) {
      if (signal.aborted || !(error instanceof Fault)) throw error;
      log.write(`The lock file was not attached to the image: ${error.message}\n`);
    }
  };

  return async run => {
    const { origin } = run.plan;
    const rights = deps.rightsOf(run.grant);
    if (origin.kind === 'image') {
      const image = await deliver(run, rights, origin);
      return { succeeded: true, lockFile: undefined, ...image };
    }
    const image = await makeFromRecipe(run, rights, origin);
    const type = recipeKindNamed(origin.recipe).lockFile;
    if (image.lockFile !== undefined && type) {
      await attachLockFile(run, rights, image, image.lockFile, type);
    }
    return { succeeded: true, ...image };
  };
}

/** A manifest or index in a repository. */
interface Placed extends Omit<ImageOrigin, 'kind'> {
  /** Documents that were written for it here and are not in the repository. */
  readonly written?: {
    readonly generated: ReadonlyMap<Digest, Document>;
    readonly layers: readonly InjectedLayer[];
  };
}

function listedByTag({ registry, repository }: Access, tag: string): string {
  return `The lock file is attached to the image. ${registry} has no referrers API, so clients find the lock file by the tag ${tag}, which is now in ${repository}\n`;
}
