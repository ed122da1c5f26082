import { mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { Fault } from '../../../foundation/fault.ts';
import { imageConfig } from '../../../images/collect.ts';
import type { Documents } from '../../../images/documents.ts';
import { blobsOf } from '../../../images/made-blobs.ts';
import type { Publish } from '../../../images/publish.ts';
import { baseOfSif } from '../../../images/sif/base/base-of-sif.ts';
import { sifLayerType } from '../../../images/sif/format/oras.ts';
import { fetchLayer } from '../../../images/sif/layers/fetch.ts';
import type { ConvertLimits } from '../../../images/sif/limits.ts';
import { createScratchSpace } from '../../../images/sif/scratch-space.ts';
import type { Descriptor } from '../../../oci/descriptor.ts';
import type { Document } from '../../../oci/document.ts';
import { parseManifest } from '../../../oci/manifest.ts';
import { parsePlatform } from '../../../oci/platform.ts';
import { formatReference, parseReference, type Reference } from '../../../oci/reference.ts';
import type { ContentStore } from '../../../storage/content/content-store.ts';
import {
  type DiskSpace,
  type SpacePromise,
  unlimitedSpace,
} from '../../../storage/directory/disk-space.ts';
import type { Access } from '../../../upstream/access.ts';
import { findManifest } from '../../../upstream/content/find-manifest.ts';
import type { RegistryClient } from '../../../upstream/registry-client.ts';
import type { RecipeOrigin } from '../../plan/build-plan.ts';
import type { BuildRights } from '../build-rights.ts';
import type { BuildRun } from '../build-run.ts';

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
  const stageOne = async (
    { log, signal }: Pick<BuildRun, 'log' | 'signal'>,
    rights: BuildRights,
    [called, name]: readonly [called: string, name: string],
    { platforms }: RecipeOrigin,
    place: Reference,
    { directory, disk }: { directory: string; disk: SpacePromise },
  ): Promise<string> => {
    const image = parseReference(name);
    const source = await rights.access(image);
    const { digest, mediaType } = await findManifest(
      registry,
      source,
      image.digest ?? image.tag ?? 'latest',
    );
    const document = await documents.manifest(source, digest, mediaType);
    const sif = await sifIn(source, document, name);
    if (!sif) return formatReference({ ...image, digest });
    const write = (line: string) => log.write(`${line}\n`);
    const made = await withFile(document, sif, source, { directory, disk, signal, name }, path =>
      baseOfSif(path, {
        name: `the Singularity image ${name}`,
        architecture: parsePlatform(platforms[0] ?? '').architecture,
        ...{ content: deps.content, limits, log: write, signal },
      }),
    );
    const target = await rights.access(place);
    await documents.receive(target, made.config);
    await publish(
      {
        image: {
          root: made.manifest,
          generated: new Map([[made.config.digest, made.config]]),
        },
        added: [made.layer],
        ...{ source: target, target, tag: called },
      },
      line => log.write(line),
      signal,
    );
    return formatReference({ ...place, digest: made.manifest.digest });
  };

  /** Provides a SIF file on the disk during the work: where it already is, or fetched and checked. */
  const withFile = async <T>(
    root: Document,
    sif: Descriptor,
    source: Access,
    {
      directory,
      disk,
      signal,
      name,
    }: { directory: string; disk: SpacePromise; signal: AbortSignal; name: string },
    use: (path: string) => Promise<T>,
  ): Promise<T> => {
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
    const bases = Object.entries(recipe.sifBases ?? {});
    if (bases.length === 0) return recipe;
    const directory = join(deps.directory, run.id);
    await rm(directory, { recursive: true, force: true });
    await mkdir(directory, { recursive: true, mode: 0o700 });
    const disk = ((await space.has(directory)) ? space : unlimitedSpace).promise(0);
    const staged = new Map<string, string>();
    try {
      for (const base of bases) {
        const within = { directory, disk };
        staged.set(base[0], await stageOne(run, rights, base, recipe, place, within));
      }
    } finally {
      disk.end();
      await rm(directory, { recursive: true, force: true });
    }
    const replaced = new Set(bases.map(([, image]) => image));
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
