import { checkOnePlatform, inField, readPlatforms } from '../builds/plan/index.ts';
import { Fault } from '../foundation/fault.ts';
import type { BaseResolver } from '../images/index.ts';
import type { Digest } from '../oci/digest.ts';
import {
  type Document,
  type ImageIndex,
  type ImageManifest,
  mayBeRunnable,
  parseManifest,
} from '../oci/index.ts';
import { isImageConfigType } from '../oci/media-type.ts';
import { defaultPlatform, type Platform, parseReference, type Reference } from '../oci/naming.ts';
import type { Access } from '../upstream/index.ts';
import type { Submission } from './container-request.ts';

/** Returns the image that a submission names; undefined for a recipe. Throws a {@link Fault} (400). */
export function askedImage({ containerImage }: Submission): Reference | undefined {
  if (containerImage !== undefined) refuseLibraries(containerImage);
  return containerImage === undefined
    ? undefined
    : inField('containerImage', () => parseReference(containerImage.replace(orasScheme, '')));
}

/** Refuses Singularity images that are not in a registry. Throws a {@link Fault} (400) that says where the image is. */
function refuseLibraries(name: string): void {
  const refuse = (why: string): never => {
    throw new Fault('bad-request', `'containerImage': ${why}`, { phase: 'request' });
  };
  const [, galaxy] =
    /^(?:https?:\/\/)?depot\.galaxyproject\.org\/singularity\/([^/]*)$/.exec(name) ?? [];
  if (galaxy !== undefined) {
    const image = `quay.io/biocontainers/${galaxy.replace(/\.(?:sif|img)$/, '')}`;
    refuse(
      `${name} is a Singularity image file, not an image in a registry. The same container is ${image}: send that name, with 'format: sif' and 'freeze' for a Singularity image`,
    );
  }
  if (/^(?:library|shub):\/\//.test(name)) {
    const place = name.startsWith('shub')
      ? 'Singularity Hub, which has been closed'
      : 'a Singularity library';
    refuse(
      `${name.slice(0, 200)} is in ${place}, not in a registry: send the name of a container image, or push the file to a registry (apptainer push IMAGE.sif oras://REGISTRY/NAME:TAG)`,
    );
  }
}

/** Returns the tag by which an image is requested; undefined for an image that is requested by its digest. */
export function askedTag({ tag = 'latest', digest }: Reference): string | undefined {
  return digest === undefined ? tag : undefined;
}

/** The scheme that clients write in front of names of Singularity images. */
export const orasScheme = /^oras:\/\//;

/**
 * Checks the scheme that the caller wrote: a client that pulls an ordinary image by `oras://` fails with a message of its
 * own. Throws a {@link Fault} (400).
 */
export function checkScheme({ containerImage = '', format }: Submission, base: Document): void {
  if (!orasScheme.test(containerImage)) return;
  const manifest = parseManifest(base);
  // One with a config of another type may be an image or not: the client decides.
  const isImage = (one: ImageManifest) =>
    isImageConfigType(one.config.mediaType) && mayBeRunnable(one);
  if (manifest.kind === 'manifest' && !isImage(manifest)) return;
  const hasImages = (index: ImageIndex) =>
    index.manifests.some(({ platform }) => platform && platform.os !== 'unknown');
  if (manifest.kind === 'index' && !hasImages(manifest)) return;
  const remedy =
    format === 'sif'
      ? "leave out 'oras://'"
      : "leave out 'oras://', or send 'format: sif' with 'freeze' to have it converted";
  throw new Fault(
    'bad-request',
    `'containerImage': ${containerImage.replace(orasScheme, '')} is a container image, and 'oras://' is for Singularity images and other artifacts: ${remedy}`,
    { phase: 'request' },
  );
}

/** Returns the requested platforms; empty for all platforms of the image. Throws a {@link Fault} (400). */
export function wantedPlatforms({ containerPlatform, format }: Submission): readonly Platform[] {
  if (containerPlatform === undefined) {
    // A Singularity image has one platform, whatever platforms its base has.
    return format === 'sif' ? [defaultPlatform] : [];
  }
  const platforms = readPlatforms(containerPlatform);
  if (format === 'sif') checkOnePlatform(platforms);
  return platforms;
}

/** An image that exists. */
export interface FoundBase {
  readonly document: Document;
  /** Digest of the index that it was chosen from; undefined for a whole image. */
  readonly root?: Digest;
}

/**
 * Returns what an image name currently resolves to: the image of the one requested platform, else the whole image,
 * which must have all requested platforms. Throws a {@link Fault}.
 */
export type BaseFinder = (
  access: Access,
  image: Reference,
  platforms: readonly Platform[],
) => Promise<FoundBase>;

export function createBaseFinder(bases: BaseResolver): BaseFinder {
  return (access, image, platforms) =>
    asBadRequest(async () => {
      const root = await bases.resolve(access, image);
      const chosen: Document[] = [];
      for (const platform of platforms) {
        chosen.push(await bases.select(access, image, root, platform));
      }
      const [only = root, ...others] = chosen;
      if (only === root || others.length > 0) return { document: root };
      return { document: only, root: root.digest };
    });
}

/** Reports an image that does not exist as a mistake in the request. */
async function asBadRequest<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof Fault && error.kind === 'manifest-unknown') {
      throw new Fault('bad-request', `${error.message}: check 'containerImage'`, {
        phase: 'upstream',
        cause: error,
      });
    }
    throw error;
  }
}
