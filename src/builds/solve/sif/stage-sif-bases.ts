import { mkdir, open, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { type FileTree, memoryTree, type TreeEntry } from '../../../buildkit/index.ts';
import { Fault } from '../../../foundation/fault.ts';
import { blobsOf, type Documents, imageConfig, type Publish } from '../../../images/index.ts';
import { shownText } from '../../../images/sif/definition/index.ts';
import { type ConvertLimits, sifLayerType } from '../../../images/sif/index.ts';
import {
  baseOfSif,
  createScratchSpace,
  fetchLayer,
  type ScratchSpace,
} from '../../../images/sif/making.ts';
import { type Descriptor, type Document, parseManifest } from '../../../oci/index.ts';
import {
  formatReference,
  parsePlatform,
  parseReference,
  type Reference,
} from '../../../oci/naming.ts';
import type { ContentStore } from '../../../storage/content/index.ts';
import {
  type DiskSpace,
  type SpacePromise,
  unlimitedSpace,
} from '../../../storage/directory/index.ts';
import { type Access, findManifest, type RegistryClient } from '../../../upstream/index.ts';
import type { RecipeOrigin } from '../../plan/build-plan.ts';
import type { BuildRights } from '../build-rights.ts';
import type { BuildRun } from '../build-run.ts';
import { openSentContext } from '../context/build-context.ts';
import { entryAt, followedLinks } from '../context/context-tree.ts';

export interface StageSifBasesDeps {
  /** Directory for temporary files; each build has its own directory in it. */
  readonly directory: string;
  readonly content: ContentStore;
  readonly documents: Documents;
  readonly registry: RegistryClient;
  readonly publish: Publish;
  readonly ownHost: string;
  readonly limits: ConvertLimits;
  readonly space: DiskSpace;
}

/**
 * Converts the Singularity images that a recipe begins with, and places the results where the builder can pull them.
 * Returns the recipe with the converted images. Throws `Fault`.
 *
 * @param place the repository for them
 */
export type StageSifBases = (
  run: Pick<BuildRun, 'id' | 'log' | 'signal'>,
  rights: BuildRights,
  recipe: RecipeOrigin,
  place: Reference,
) => Promise<RecipeOrigin>;

export function createStageSifBases(deps: StageSifBasesDeps): StageSifBases {
  const { documents, registry, publish, limits, space } = deps;

  /** Returns the SIF file that a name refers to; undefined for a container image. */
  const sifIn = async (
    source: Access,
    document: Document,
    name: string,
  ): Promise<Descriptor | undefined> => {
    const manifest = parseManifest(document);
    const [layer] = manifest.kind === 'manifest' ? manifest.layers : [];
    if (layer?.mediaType === sifLayerType) return layer;
    if (manifest.kind === 'index') return undefined;
    if (manifest.kind === 'manifest' && (await imageConfig(documents, source, manifest))) {
      return undefined;
    }
    throw new Fault(
      'bad-request',
      `The base ${name} is not a Singularity image: push one there with 'apptainer push', or name another`,
      { phase: 'build' },
    );
  };

  /** Converts a SIF file into an image and pushes it into the repository; returns its name there. */
  const convert = async (
    path: string,
    name: string,
    { run: { log, signal }, rights, recipe, place }: Work,
    called: string,
  ): Promise<string> => {
    const made = await baseOfSif(path, {
      name,
      architecture: parsePlatform(recipe.platforms[0] ?? '').architecture,
      content: deps.content,
      limits,
      log: line => log.write(`${line}\n`),
      signal,
    });
    const target = await rights.access(place);
    await documents.receive(target, made.config);
    await publish(
      {
        image: {
          root: made.manifest,
          generated: new Map([[made.config.digest, made.config]]),
        },
        added: [made.layer],
        source: target,
        target,
        tag: called,
      },
      line => log.write(line),
      signal,
    );
    return formatReference({ ...place, digest: made.manifest.digest });
  };

  /** Converts a Singularity image of a registry; returns the name of the image for the builder. */
  const stageImage = async (name: string, work: Work, called: string): Promise<string> => {
    const image = parseReference(name);
    const source = await work.rights.access(image);
    const { digest, mediaType } = await findManifest(
      registry,
      source,
      image.digest ?? image.tag ?? 'latest',
    );
    const document = await documents.manifest(source, digest, mediaType);
    const sif = await sifIn(source, document, name);
    if (!sif) return formatReference({ ...image, digest });
    return withFile(document, sif, source, { name, work }, path =>
      convert(path, `the Singularity image ${name}`, work, called),
    );
  };

  /** Converts a SIF file of the build context; returns the name of the image for the builder. */
  const stageFile = (path: string, tree: FileTree, work: Work, called: string): Promise<string> =>
    aboutContextSif(path, async () => {
      const { directory, disk, run } = work;
      const file = join(directory, 'base.sif');
      try {
        await copyContextSif(tree, path, file, createScratchSpace(limits, disk), run.signal);
        return await convert(file, nameOfContextSif(path), work, called);
      } finally {
        await rm(file, { force: true });
      }
    });

  /** Provides a SIF file on the disk during the work: where it already is, or fetched and checked. */
  const withFile = async <T>(
    root: Document,
    sif: Descriptor,
    source: Access,
    { name, work }: { name: string; work: Work },
    use: (path: string) => Promise<T>,
  ): Promise<T> => {
    const { directory, disk, run } = work;
    const { signal } = run;
    const blobs = blobsOf({ image: { root, generated: new Map() }, added: [], source }, deps);
    if (await blobs.isKept(sif)) {
      await using lease = await deps.content.lease(sif.digest);
      if (lease) return await use(lease.path);
    }
    const scratch = createScratchSpace(limits, disk);
    scratch.take(sif.size);
    const path = join(directory, 'base.sif');
    const file = { name: `base ${name}`, path, size: sif.size, isScratch: true };
    try {
      await fetchLayer(sif, await blobs.open(sif, signal), file, scratch, signal);
      return await use(path);
    } finally {
      await rm(path, { force: true });
    }
  };

  return async (run, rights, recipe, place) => {
    const images = Object.entries(recipe.sifBases ?? {});
    const files = Object.entries(recipe.sifFiles ?? {});
    if (images.length + files.length === 0) return recipe;
    const directory = join(deps.directory, run.id);
    await rm(directory, { recursive: true, force: true });
    await mkdir(directory, { recursive: true, mode: 0o700 });
    const disk = ((await space.has(directory)) ? space : unlimitedSpace).promise(0);
    const work = { run, rights, recipe, place, directory, disk };
    const staged = new Map<string, string>();
    try {
      for (const [called, name] of images) staged.set(called, await stageImage(name, work, called));
      if (files.length > 0) {
        await using sent = await openSentContext(deps.content, recipe, run.signal);
        const tree = followedLinks(sent?.tree ?? memoryTree({}));
        for (const [called, path] of files) {
          staged.set(called, await stageFile(path, tree, work, called));
        }
      }
    } finally {
      disk.end();
      await rm(directory, { recursive: true, force: true });
    }
    const replaced = new Set(images.map(([, image]) => image));
    return {
      ...recipe,
      namedContexts: { ...recipe.namedContexts, ...Object.fromEntries(staged) },
      baseImages: [
        ...recipe.baseImages.filter(image => !replaced.has(image)),
        ...new Set(staged.values()),
      ],
    };
  };
}

/** What the conversion of each base needs. */
interface Work {
  readonly run: Pick<BuildRun, 'id' | 'log' | 'signal'>;
  readonly rights: BuildRights;
  readonly recipe: RecipeOrigin;
  /** The repository for the images. */
  readonly place: Reference;
  /** For temporary files of this build. */
  readonly directory: string;
  readonly disk: SpacePromise;
}

/**
 * Copies a SIF file of a build context to a new file. Throws a {@link Fault} that names the file if the context has none
 * there, or the limits do not allow its size.
 *
 * @param path a normalised path below the root of the tree
 */
export async function copyContextSif(
  tree: FileTree,
  path: string,
  target: string,
  space: Pick<ScratchSpace, 'take' | 'write'>,
  signal: AbortSignal,
): Promise<void> {
  const { size } = await fileAt(tree, path);
  space.take(size);
  await using file = await open(target, 'wx', 0o600);
  let written = 0;
  for await (const piece of tree.read(path)) {
    signal.throwIfAborted();
    written += piece.length;
    if (written > size) break;
    space.write(piece.length);
    await file.writeFile(piece);
  }
  if (written !== size) refuse(path, 'changed while it was read: request the build again');
}

/** Does work for a SIF file of a build context. Its failures name the file, and are those of the caller. */
async function aboutContextSif<T>(path: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof Fault) || error.kind !== 'upstream') throw error;
    throw new Fault('bad-request', `${nameOfContextSif(path)} cannot be a base: ${error.message}`, {
      phase: 'build',
      cause: error,
    });
  }
}

async function fileAt(tree: FileTree, path: string): Promise<TreeEntry> {
  const found = await entryAt(tree, path);
  switch (found?.kind) {
    case 'file':
      return found;
    case 'directory':
      return refuse(
        path,
        "is a directory: make a SIF file of it with 'apptainer build base.sif DIRECTORY'",
      );
    case 'symlink':
      return refuse(path, 'is a link to something that is not in the build context');
  }
  return refuse(path, 'does not exist: check its path, and what .dockerignore excludes');
}

function refuse(path: string, what: string): never {
  throw new Fault('bad-request', `${nameOfContextSif(path)} ${what}`, { phase: 'build' });
}

/** Returns what messages call a SIF file of a build context. */
function nameOfContextSif(path: string): string {
  return `The file ${shownText(path)} of the build context`;
}
