import { memoryTree } from '../../buildkit/index.ts';
import { documentsOf } from '../../conda/index.ts';
import { Fault } from '../../foundation/fault.ts';
import { type ImageChange, isUnchanged, layersIn } from '../../images/augment/index.ts';
import type { Attach, Documents, ImageMaker, MadeOf, Mirror, Publish } from '../../images/index.ts';
import type { ShelllessBuild } from '../../images/sif/definition/index.ts';
import type { Digest } from '../../oci/digest.ts';
import { type Document, manifestType } from '../../oci/index.ts';
import { formatReference, parseReference } from '../../oci/naming.ts';
import type { ContentStore } from '../../storage/content/index.ts';
import type { Access } from '../../upstream/index.ts';
import { domainOf, type TrustDomain } from '../domain.ts';
import { layersOf } from '../logs/made-layers.ts';
import { numberedSteps, type RunStep, type StepCount } from '../logs/run-step.ts';
import type { ImageOrigin, RecipeOrigin } from '../plan/build-plan.ts';
import { requireBuilderReads } from '../recipe/conda/conda-lock.ts';
import type { LockFileType } from '../recipe/recipe-kind.ts';
import { recipeKindNamed } from '../recipe/recipe-kinds.ts';
import type { CompressBase } from './bases/compress-base.ts';
import type { PrepareBases, PreparedBases } from './bases/prepare-bases.ts';
import { lacksShell } from './build-fault.ts';
import type { BuildRights, RightsOf } from './build-rights.ts';
import type { BuildRun, Solve } from './build-run.ts';
import {
  BuilderRequired,
  type BuilderRules,
  foundRecipe,
  refuseBuilder,
  requireBuilderAllowed,
  sentence,
  withReasons,
} from './conda/builder-required.ts';
import type { NativeOrigin } from './conda/find-solution.ts';
import { type MakeCondaImage, requireNoScripts } from './conda/make-conda-image.ts';
import { sourceOf } from './conda/python-packages.ts';
import { openSentContext } from './context/build-context.ts';
import { entryAt, followedLinks } from './context/context-tree.ts';
import type { DatedLayers, KnownLayers } from './dating/dated-layers.ts';
import type { RedateImage } from './dating/redate-image.ts';
import { type ReceivedImage, receiveImage } from './received-image.ts';
import type { RecipeResult, RunRecipe } from './run-recipe.ts';
import type { ScriptLayers } from './scripts/script-layers.ts';
import type { MakeSif } from './sif/make-sif.ts';
import type { StageSifBases } from './sif/stage-sif-bases.ts';
import type { Staging } from './staged-images.ts';
import type { WheelBuilds } from './wheels/build-wheels.ts';

export interface SolveDeps extends BuilderRules {
  readonly runRecipe: RunRecipe;
  /** Throws a {@link Fault} when no builder may run builds of the domain. */
  readonly requireBuilder: (domain: TrustDomain) => Promise<void>;
  readonly makeCondaImage: MakeCondaImage;
  readonly compressBase: CompressBase;
  /** Builds wheels for the image of one build; absent where packages without a wheel require a builder for the whole image. */
  readonly wheelBuilds?: Pick<WheelBuilds, 'build'> | undefined;
  /** Runs link scripts for the image of one build; absent where packages with one require a builder for the whole image. */
  readonly scriptLayers?: Pick<ScriptLayers, 'link'> | undefined;
  readonly documents: Documents;
  readonly makeImage: ImageMaker;
  readonly datedLayers: DatedLayers;
  readonly redate: RedateImage;
  readonly publish: Publish;
  readonly mirror: Mirror;
  readonly makeSif: MakeSif;
  readonly stageSifBases: StageSifBases;
  readonly prepareBases: PrepareBases;
  readonly attach: Attach;
  readonly content: ContentStore;
  readonly rightsOf: RightsOf;
  /** Repositories of intermediate images. */
  readonly staging: Staging;
  /** Returns true for a registry that builders of anonymous callers do not reach: it may have a closed address. */
  readonly isClosed: (registry: string) => boolean;
  /** Repository of the layer caches of this server, which all builders reach. */
  readonly serviceCache: string | undefined;
}

/**
 * Returns the function that runs a build: it makes or finds the image, applies the changes of the plan, and pushes the
 * result to its target.
 */
export function createSolve(deps: SolveDeps): Solve {
  const { documents, staging } = deps;

  /** Makes an image with a change of an image in a repository. */
  const bake = async (source: Access, base: Document, change: ImageChange): Promise<MadeOf> => {
    const { root, generated } = await deps.makeImage(source, base, change);
    const added = layersIn(change).map(({ gzipDigest }) => gzipDigest);
    return { image: { root, generated }, added, source };
  };

  /** Makes an image with a change of an image that is in no repository yet. */
  const bakeMade = async (made: MadeOf, change: ImageChange): Promise<MadeOf> => {
    if (isUnchanged(change)) return made;
    const { source, image } = made;
    for (const document of image.generated.values()) await documents.receive(source, document);
    const baked = await bake(source, image.root, change);
    const generated = new Map([...image.generated, ...baked.image.generated]);
    const { root } = baked.image;
    return { ...made, image: { root, generated }, added: [...made.added, ...baked.added] };
  };

  /** Makes an image in a repository with the changes of the plan, and pushes it to the target. */
  const deliverPlaced = async (
    run: BuildRun,
    rights: BuildRights,
    { repository, digest, mediaType }: Omit<ImageOrigin, 'kind'>,
  ) => {
    const source = await rights.access(parseReference(repository));
    const base = await documents.manifest(source, digest, mediaType);
    const made = await bake(source, base, run.plan.change);
    return deliver(run, rights, made, numberedSteps(run.log));
  };

  /** Pushes the image to the target of the plan, in the requested format. */
  const deliver = async (run: BuildRun, rights: BuildRights, made: MadeOf, step: RunStep) => {
    const { plan, log, signal } = run;
    const { tag = 'latest', ...repository } = parseReference(plan.target);
    const target = await rights.access(repository);
    log.layers(await layersOf(made, documents));
    const { sif } = plan;
    if (sif) {
      return deps.makeSif({ ...run, step }, made, sif, { ...target, tag });
    }
    await step('Push the image', ({ write }) =>
      deps.publish({ ...made, target, tag }, write, signal),
    );
    const { root } = made.image;
    return { digest: root.digest, mediaType: manifestType(root) };
  };

  /** Copies an image, and what refers to it, to the target of the plan. */
  const copyAsItIs = async (
    { plan, log, signal }: BuildRun,
    rights: BuildRights,
    { repository, digest, mediaType }: ImageOrigin,
  ) => {
    const { tag = 'latest', ...place } = parseReference(plan.target);
    const source = await rights.access(parseReference(repository));
    const target = await rights.access(place);
    const root = await documents.manifest(source, digest, mediaType);
    await numberedSteps(log)('Copy the image', ({ write }) =>
      deps.mirror({ source, root, target, tag }, write, signal),
    );
    return { digest, mediaType: manifestType(root) };
  };

  const runRecipe = async (
    build: BuildRun,
    rights: BuildRights,
    recipe: RecipeOrigin,
    files: AsyncDisposableStack,
    count: StepCount,
  ): Promise<BuiltRecipe> => {
    const { secrets, log, signal } = build;
    const { key } = build.plan;
    const domain = domainOf({ ...build, limits: rights.limits }, recipe);
    // Without a builder, its bases are not fetched.
    await deps.requireBuilder(domain);
    using bases = await deps.prepareBases(build, rights, recipe);
    const { layers, blobs } = bases;
    const known = deps.datedLayers.of(domain, recipe.layers);
    const isThere = (digest: Digest) => blobs.has(digest) || known.hold(digest);
    const image = files.use(receiveImage(deps.content, isThere));
    const access = rights.forBuilder(recipe.cache);
    const given = { key, recipe, image, access, domain, secrets };
    const made = await deps.runRecipe({ ...given, bases: bases.images, log, count, signal });
    return { ...made, received: image, known, layers, blobs };
  };

  /** Has a builder make the image of a recipe, and pushes it to the target of the plan. */
  const makeByBuilder = async (run: BuildRun, rights: BuildRights, recipe: RecipeOrigin) => {
    const { plan, id, log, signal } = run;
    const { builderReasons = [] } = recipe;
    if (builderReasons.length > 0) log.write(`${sentence(builderReasons)} a builder.\n`);
    const { cache } = recipe;
    const isBeyond = (registry: string) =>
      !run.isTrusted && registry !== staging.host && deps.isClosed(registry);
    const hasCache =
      cache === undefined ||
      cache === deps.serviceCache ||
      !isBeyond(parseReference(cache).registry);
    if (!hasCache) log.write(`The layer cache ${cache} is not used: it requires a login.\n`);
    const place = staging.repositoryOf(id);
    await using files = new AsyncDisposableStack();
    const count: StepCount = { last: 0 };
    const step = numberedSteps(log, count);
    try {
      const staged =
        recipe.sifBases || recipe.sifFiles
          ? await step('Fetch the Singularity images to build from', ({ write }) =>
              deps.stageSifBases({ ...run, log: { ...log, write } }, rights, recipe, place),
            )
          : recipe;
      const ready = hasCache ? staged : { ...staged, cache: undefined };
      const runHere = (found: RecipeOrigin) => runRecipe(run, rights, found, files, count);
      const built = await runHere(ready)
        .catch(async error => {
          if (!ready.shellless || !lacksShell(error)) throw error;
          log.write('\nA base image has no /bin/sh: its files are copied without one.\n');
          log.restartSteps();
          count.last = 0;
          return runHere(await shelllessRecipe(ready, ready.shellless, deps.content, signal));
        })
        .catch(error => {
          throw asBaseLost(error);
        });
      const { layers: bases, blobs: elsewhere, lockFile } = built;
      const source = await rights.access(place);
      const undated = { ...built, elsewhere, source };
      const { layers: compression, options: { created } = {} } = recipe;
      const written = await step('Set the dates of files', ({ write }) =>
        deps.redate(undated, { created, compression, bases }, write, signal),
      );
      const { added } = written;
      const made = { image: written, added, source, elsewhere, pushed: built.known.pushed };
      const type = recipeKindNamed(recipe.recipe).lockFile;
      const attached = lockFile !== undefined && type ? [{ ...type, text: lockFile }] : [];
      const whole = await bakeMade(made, plan.change);
      return { ...(await deliver(run, rights, whole, step)), lockFile, attached };
    } finally {
      if (recipe.sifBases || recipe.sifFiles) await staging.drop(id);
    }
  };

  /** Returns the base image with its layers compressed again; undefined where nobody requested that. */
  const compressedBase = async (
    { signal, isTrusted, owner }: BuildRun,
    { layers, native }: NativeOrigin,
    base: { readonly source: Access; readonly root: Document },
    step: RunStep,
  ): Promise<MadeOf | undefined> => {
    if (!layers?.force) return undefined;
    const { baseImage: name } = native.options;
    const payer = isTrusted ? undefined : owner;
    return step('Compress the layers of the base image', ({ write }) =>
      deps.compressBase({ ...base, name }, layers, { signal, payer, write }),
    );
  };

  /** Makes an image of Conda packages without a builder, and pushes it to the target of the plan. */
  const makeNatively = async (run: BuildRun, rights: BuildRights, recipe: NativeOrigin) => {
    const count: StepCount = { last: 0 };
    const step = numberedSteps(run.log, count);
    const beforeBuilder = async (reasons: readonly string[], domain: TrustDomain) => {
      run.onSolved?.();
      requireBuilderAllowed(deps, reasons);
      await deps.requireBuilder(domain).catch(error => {
        throw withReasons(error, reasons);
      });
      await run.requireBuilder?.();
    };
    const buildWheels = deps.wheelBuilds?.build({
      ...run,
      rights,
      count,
      checkPackages: requireNoScripts,
      beforeBuilder: (sources, domain) => beforeBuilder(sources.map(sourceOf), domain),
    });
    const linkPackages = deps.scriptLayers?.link({ ...run, rights, count, beforeBuilder });
    const { source, base, change, solution } = await deps.makeCondaImage(
      { ...run, step, buildWheels, linkPackages },
      rights,
      recipe,
    );
    const { plan } = run;
    const whole = isUnchanged(plan.change) ? change : { ...plan.change, onTopOf: change };
    const { tag: _, ...repository } = parseReference(plan.target);
    // By its digest: another request may make the same image, whose documents are the same then.
    const documentsAt = (digest: Digest) =>
      documentsOf({ ...solution, image: formatReference({ ...repository, digest }) });
    const lower = await compressedBase(run, recipe, { source, root: base }, step);
    const made = lower ? await bakeMade(lower, whole) : await bake(source, base, whole);
    if (plan.sif) {
      const file = await deliver(run, rights, made, step);
      return { ...file, ...(await documentsAt(file.digest)) };
    }
    // They take as long as the push of an image whose layers are there. A push that fails says more.
    const written = documentsAt(made.image.root.digest);
    written.catch(() => {});
    const image = await deliver(run, rights, made, step);
    return { ...image, ...(await written) };
  };

  /** Makes the image of a recipe: without a builder where that is possible. */
  const makeFromRecipe = async (run: BuildRun, rights: BuildRights, recipe: RecipeOrigin) => {
    const { native } = recipe;
    if (native === undefined) return makeByBuilder(run, rights, recipe);
    try {
      return await makeNatively(run, rights, { ...recipe, native });
    } catch (error) {
      if (!(error instanceof BuilderRequired)) throw error;
      const { reasons, solution } = error;
      refuseBuilder(deps, native, reasons, solution);
      run.log.write(`${sentence(reasons)} a builder: BuildKit makes the image.\n`);
      run.log.restartSteps();
      if (solution === undefined) requireBuilderReads(native);
      await run.requireBuilder?.();
      const { mambaImage } = native.options;
      const baseImages = [...recipe.baseImages, mambaImage];
      try {
        const found = solution ? foundRecipe(recipe, native, solution, deps.condaChannels) : recipe;
        return await makeByBuilder(run, rights, { ...found, baseImages });
      } catch (cause) {
        throw withReasons(cause, reasons);
      }
    }
  };

  /** Attaches a document to its image. A registry that rejects the document still has the image. */
  const attachDocument = async (
    { plan, log, signal }: BuildRun,
    rights: BuildRights,
    { digest, mediaType }: Pick<ImageOrigin, 'digest' | 'mediaType'>,
    { text, artifactType, title }: AttachedDocument,
  ) => {
    try {
      const target = await rights.access(parseReference(plan.target));
      const image = await documents.manifest(target, digest, mediaType);
      const content = Buffer.from(text);
      const tag = await deps.attach(target, image, { artifactType, title, content }, signal);
      if (tag !== undefined) log.write(listedByTag(target, tag, title));
    } catch (error) {
      if (signal.aborted || !(error instanceof Fault)) throw error;
      log.write(`The file ${title} was not attached to the image: ${error.message}\n`);
    }
  };

  return async run => {
    const { origin } = run.plan;
    const rights = deps.rightsOf(run.grant);
    if (origin.kind === 'image' && run.plan.mirror) {
      return { succeeded: true, lockFile: undefined, ...(await copyAsItIs(run, rights, origin)) };
    }
    if (origin.kind === 'image') {
      const image = await deliverPlaced(run, rights, origin);
      return { succeeded: true, lockFile: undefined, ...image };
    }
    const { attached, ...image } = await makeFromRecipe(run, rights, origin);
    for (const document of attached) await attachDocument(run, rights, image, document);
    return { succeeded: true, ...image };
  };
}

/** A document that is attached to an image as a referrer. */
interface AttachedDocument extends LockFileType {
  readonly text: string;
}

/** What a builder has made of a recipe, and sent. */
interface BuiltRecipe extends RecipeResult, Pick<PreparedBases, 'layers' | 'blobs'> {
  readonly received: ReceivedImage;
  readonly known: KnownLayers;
}

function listedByTag({ registry, repository }: Access, tag: string, title: string): string {
  return `The file ${title} is attached to the image. ${registry} has no referrers API, so clients find the file by the tag ${tag}, which is now in ${repository}\n`;
}

// The words of BuildKit's resolver and of containerd's fetcher: the response was 5xx or 404, or did not arrive
// completely. Base images were verified before, and come from this server. With 404 their token is unknown: it is in
// the memory of the leader that runs the build, and a replica that led before and does not know that yet was asked.
const fetchFailed =
  /failed to resolve source metadata for |failed to copy: httpReadSeeker: failed open: /;
const connectionLost = /(?:\bEOF|reset by peer|refused|: not found|: 5\d\d [A-Z][\w ]*)$/;

/** Returns the failure to get a verified base image from this server as one of its storage: the build can be repeated. */
export function asBaseLost(error: unknown): unknown {
  if (!(error instanceof Fault) || !fetchFailed.test(error.message)) return error;
  if (!connectionLost.test(error.message)) return error;
  return new Fault('unavailable', error.message, { phase: 'store', cause: error });
}

/**
 * Returns the recipe that copies files into a base image without a shell. Throws a {@link Fault} with the line of the
 * definition file for anything but a file: what becomes of a directory depends on the base image.
 */
async function shelllessRecipe(
  recipe: RecipeOrigin,
  { dockerfile, files }: ShelllessBuild,
  content: ContentStore,
  signal: AbortSignal,
): Promise<RecipeOrigin> {
  await using sent = await openSentContext(content, recipe, signal);
  const tree = followedLinks(sent?.tree ?? memoryTree({}));
  for (const [path, line] of files) {
    const entry = await entryAt(tree, path);
    if (entry?.kind === 'file') continue;
    const what = entry === undefined ? 'does not exist' : 'is not a file';
    throw new Fault(
      'bad-request',
      `'%files' of the definition file, line ${line}: '${path}' ${what}, and the base image has no /bin/sh to copy anything else: name each file, or build from an image that has a shell`,
      { phase: 'build' },
    );
  }
  return { ...recipe, dockerfile, hasCopyModes: true };
}
