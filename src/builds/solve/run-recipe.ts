import { readOnlyFile } from '../../archives/only-file.ts';
import {
  type BlobSink,
  BuildError,
  type BuildkitClient,
  build,
  type FileTree,
  memoryTree,
  type ReplacedImage,
  readSshKey,
  SecretMask,
  type SourceRule,
  type SshKey,
} from '../../buildkit/index.ts';
import type { Digest } from '../../oci/digest.ts';
import { mediaTypes } from '../../oci/media-type.ts';
import type { ContentStore } from '../../storage/content/index.ts';
import type { Secrets } from '../build-request.ts';
import { domainHosts, numberedBuild } from '../builder/build-host.ts';
import type { Builders } from '../builder/builders.ts';
import type { LabelOf, TrustDomain } from '../domain.ts';
import type { LogWriter } from '../logs/build-logs.ts';
import type { StepCount } from '../logs/run-step.ts';
import type { RecipeOrigin } from '../plan/build-plan.ts';
import { recipeKindNamed } from '../recipe/recipe-kinds.ts';
import { buildFault } from './build-fault.ts';
import { type BuilderAccess, loginsOf } from './build-rights.ts';
import { type BuildContext, openSentContext } from './context/build-context.ts';
import {
  followedLinks,
  layeredTree,
  withCopyModes,
  withoutIgnoring,
} from './context/context-tree.ts';
import { buildTime, datedTree } from './dating/redate-layer.ts';
import { recordedProgress } from './recorded-step.ts';

/** A recipe to build, and how to build it. */
export interface RecipeRun {
  /** Key of the plan: the same key means the same recipe. */
  readonly key: string;
  readonly recipe: RecipeOrigin;
  /** Receives the image. */
  readonly image: BlobSink;
  /** The images that the builder may use and where it gets them, by their names in the recipe. */
  readonly bases: Readonly<Record<string, ReplacedImage>>;
  readonly access: BuilderAccess;
  /** The builds that share the state of a builder with this one. */
  readonly domain: TrustDomain;
  readonly secrets?: Secrets | undefined;
  readonly log: LogWriter;
  /** The steps of the builder are counted with it. */
  readonly count: StepCount;
  readonly signal: AbortSignal;
}

/** Result of the build. */
export interface RecipeResult {
  readonly digest: Digest;
  readonly mediaType: string;
  readonly lockFile: string | undefined;
}

/** Has BuildKit build a recipe and send the image. Throws a `Fault` with the reason of the failure, for the user. */
export type RunRecipe = (run: RecipeRun) => Promise<RecipeResult>;

export interface RunRecipeDeps {
  readonly builders: Builders;
  readonly content: ContentStore;
  /** Repository of the layer caches of this server, which only its builders can push to. */
  readonly serviceCache: string | undefined;
  /** True to use the layers of caches that requests name. A builder believes what a cache says about a step's result. */
  readonly isTrustedCache: boolean;
  /** True if the builds of one known caller share the content of cache mounts. */
  readonly sharesMounts: boolean;
  readonly labelOf: LabelOf;
  /** Rules for what a Dockerfile may fetch with ADD. */
  readonly sourceRules: readonly SourceRule[];
}

/** A run, with the files that its steps may use. */
interface PreparedRun extends RecipeRun {
  readonly context: FileTree;
  /** The number of the build, by which a builder limits all its steps together, and the mark of its domain. */
  readonly extraHosts: Readonly<Record<string, string>>;
}

export function createRunRecipe(deps: RunRecipeDeps): RunRecipe {
  const { builders, content } = deps;
  return async given => {
    const { recipe, domain, signal } = given;
    await using sent = await openSentContext(content, recipe, signal);
    const run = {
      ...given,
      context: contextOf(recipe, sent),
      extraHosts: { ...numberedBuild(), ...domainHosts(deps.labelOf(domain.name)) },
    };
    try {
      return await builders.use({ domain, platforms: recipe.platforms }, signal, async client => {
        const image = await makeImage(client, run, deps);
        const lockFile =
          recipe.lockStage === undefined ? undefined : await exportLockFile(client, run, deps);
        return { ...image, lockFile };
      });
    } catch (error) {
      throw error instanceof BuildError ? buildFault(error, recipeKindNamed(recipe.recipe)) : error;
    }
  };
}

/** Returns the files of the recipe together with the build context of the request. */
function contextOf(
  { recipe, files, hasCopyModes }: RecipeOrigin,
  sent: BuildContext | undefined,
): FileTree {
  if (!sent) return datedTree(memoryTree(files));
  const followed = recipeKindNamed(recipe).followsLinks ? followedLinks(sent.tree) : sent.tree;
  const tree = hasCopyModes ? withCopyModes(followed) : followed;
  const own = Object.keys(files);
  if (own.length === 0) return datedTree(tree);
  return datedTree(layeredTree(memoryTree(files), withoutIgnoring(tree, own)));
}

function commonOptions(
  run: PreparedRun,
  {
    sourceRules,
    sharesMounts,
    labelOf,
  }: Pick<RunRecipeDeps, 'sourceRules' | 'sharesMounts' | 'labelOf'>,
) {
  const { key, recipe, context, extraHosts, access, secrets = noSecrets } = run;
  const { args, target, labels } = recipe.options ?? {};
  const replaced = Object.entries(recipe.namedContexts ?? {});
  return {
    dockerfile: recipe.dockerfile,
    ...(recipe.isFiltered ? { dockerignore: '# nothing\n' } : {}),
    context,
    extraHosts,
    namedContexts: Object.fromEntries(
      replaced.map(([name, image]) => [name, `docker-image://${image}`]),
    ),
    // Only verified images: the builder gives what it has to every build that names it.
    replacedImages: run.bases,
    sourceRules,
    // Otherwise, files that another recipe left in a cache mount would change an image that everyone uses.
    cacheNamespace: labelOf(
      sharesMounts && run.domain.callerKind === 'known' ? run.domain.name : key,
    ),
    ...(args ? { buildArgs: args } : {}),
    ...(labels ? { labels } : {}),
    target,
    secrets: Object.fromEntries(
      Object.entries(secrets.values).map(([id, base64]) => [id, Buffer.from(base64, 'base64')]),
    ),
    ssh: Object.fromEntries(
      Object.entries(secrets.sshKeys).map(([id, keys]) => [id, { keys: keys.map(readKey) }]),
    ),
    noCache: recipe.options?.noCache === true,
    platforms: recipe.platforms,
    frontendAttrs: frontendAttrs(recipe),
    sourceDateEpoch: buildTime,
    ...loginsOf(access),
  };
}

const noSecrets: Secrets = { values: {}, sshKeys: {} };

function readKey(base64: string): SshKey {
  return readSshKey(Buffer.from(base64, 'base64'));
}

function annotationAttrs({ options }: RecipeOrigin): Record<string, string> {
  const annotations = Object.entries(options?.annotations ?? {});
  return Object.fromEntries(annotations.map(([name, text]) => [`annotation.${name}`, text]));
}

/**
 * Layers are compressed when they get their dates (dating/redate-image). Until then they are compressed as fast as
 * possible. Layers with a table are final, and so are those of a base image that is compressed again.
 */
function compressionAttrs({ recipe: { layers } }: RecipeRun): Record<string, string> {
  if (layers?.mode !== 'estargz' && !layers?.force) {
    return { compression: 'zstd', 'compression-level': '1' };
  }
  const { mode, level, force } = layers;
  return {
    compression: mode,
    ...(level === undefined ? {} : { 'compression-level': String(level) }),
    ...(force ? { 'force-compression': 'true' } : {}),
  };
}

/**
 * With `cmdline`, the builder's own frontend reads the file, whatever its syntax line names. The build argument names
 * another image. Source: BuildKit's Dockerfile frontend, `builder/build.go`.
 */
function frontendAttrs({ frontend }: RecipeOrigin): Record<string, string> {
  if (frontend === undefined) return {};
  if (frontend === 'builder') return { cmdline: 'docker/dockerfile' };
  return { 'build-arg:BUILDKIT_SYNTAX': frontend };
}

async function makeImage(client: BuildkitClient, run: PreparedRun, deps: RunRecipeDeps) {
  const { recipe, image, log, count, signal } = run;
  const mask = new SecretMask();
  for (const base64 of Object.values(run.secrets?.values ?? {}))
    mask.add(Buffer.from(base64, 'base64'));
  const progress = recordedProgress(log, count, mask);
  const { imports, exports } = cachesOf(run, deps);
  try {
    const { digest, descriptor } = await build(
      client,
      {
        ...commonOptions(run, deps),
        exporters: [
          {
            type: 'oci',
            blobs: image,
            attrs: {
              // Byte code contains the time of its source: dating/redate-image changes both. It cannot change eStargz
              // layers, which have a table of their own bytes.
              'rewrite-timestamp': String(recipe.layers?.mode === 'estargz'),
              ...compressionAttrs(run),
              ...annotationAttrs(recipe),
            },
          },
        ],
        cacheImports: imports,
        cacheExports: exports,
      },
      { signal, onProgress: progress.onProgress },
    );
    return { digest: digest as Digest, mediaType: descriptor?.mediaType ?? mediaTypes.ociManifest };
  } finally {
    progress.end();
  }
}

/** Returns the layer caches that a build reads and writes. One that is alone has none. */
function cachesOf(
  { recipe: { cache }, domain }: PreparedRun,
  { isTrustedCache, serviceCache, labelOf }: RunRecipeDeps,
) {
  if (cache === undefined || domain.isAlone) return { imports: [], exports: [] };
  // Each domain has its own in the repository that all use.
  const ref = cache === serviceCache ? `${cache}:${labelOf(domain.name)}` : cache;
  const caches = [{ type: 'registry' as const, ref }];
  return { imports: cache === serviceCache || isTrustedCache ? caches : [], exports: caches };
}

/** All steps have finished by now: this only fetches their result. */
function exportLockFile(
  client: BuildkitClient,
  run: PreparedRun,
  deps: RunRecipeDeps,
): Promise<string | undefined> {
  const { recipe, signal } = run;
  return readOnlyFile(sink =>
    build(
      client,
      {
        ...commonOptions(run, deps),
        // No step runs again.
        noCache: false,
        target: recipe.lockStage,
        exporters: [{ type: 'tar', sink }],
      },
      { signal },
    ),
  );
}
