import type { DescribedLayers, DescribedParts } from '../conda/index.ts';
import { leaveOutLayers } from '../images/augment/index.ts';
import type { Documents } from '../images/index.ts';
import type { Digest } from '../oci/digest.ts';
import { type Document, parseManifest } from '../oci/index.ts';
import type { PulledImage } from '../pull/index.ts';
import type { ContainerRequest } from '../request/index.ts';
import type { ScannedComponent } from './scanner.ts';

interface Named {
  readonly digest: Digest;
  readonly mediaType: string;
}

/** An image of packages, as a scanner reads it in part. */
export interface BilledImage {
  /** The image without the layers that the components name. */
  readonly manifest: Document;
  readonly config: Document;
  readonly components: readonly ScannedComponent[];
  readonly layers: number;
  readonly allLayers: number;
}

/** Returns how a scanner reads an image for one platform in part; undefined for an image that it reads as a whole. */
export type ReadInPart = (image: PulledImage, part: Named) => Promise<BilledImage | undefined>;

export interface BilledImagesDeps {
  readonly documents: Pick<Documents, 'local' | 'manifest' | 'config'>;
  /** Returns the bill that was kept with a build; undefined without one. */
  readonly billOf: (buildId: string) => Promise<Uint8Array | undefined>;
  readonly describe: DescribedLayers;
}

/** Returns, for the image of a request, how a scanner reads it in part. */
export type BilledImages = (request: ContainerRequest) => Promise<ReadInPart>;

const asWhole: ReadInPart = async () => undefined;

/**
 * Images of packages that were made without a builder have a bill of materials, and a scanner does not have to read the files of their
 * packages. It reads all other layers: those of the base image, those that a request added, and those of packages that have more in them
 * than their bill says.
 */
export function createBilledImages({
  documents,
  billOf,
  describe,
}: BilledImagesDeps): BilledImages {
  const documentOf = async ({ access, owns }: PulledImage, { digest, mediaType }: Named) =>
    (owns(digest) ? await documents.local(digest, mediaType) : undefined) ??
    documents.manifest(access, digest, mediaType);

  const readPart = async (
    image: PulledImage,
    part: Named,
    platforms: readonly DescribedParts[],
  ): Promise<BilledImage | undefined> => {
    const manifest = await documentOf(image, part);
    const parsed = parseManifest(manifest);
    if (parsed.kind !== 'manifest') return undefined;
    const digests = new Set(parsed.layers.map(({ digest }) => digest));
    // Platforms share layers of packages for all of them, so only the right one has all of its layers here.
    const own = platforms.find(
      ({ contents }) => contents.length > 0 && contents.every(digest => digests.has(digest)),
    );
    if (!own) return undefined;
    const { access, owns } = image;
    const { digest, mediaType } = parsed.config;
    const config =
      (owns(digest) ? await documents.local(digest, mediaType) : undefined) ??
      (await documents.config(access, parsed.config));
    const short = leaveOutLayers({ manifest, config }, layer => own.layers.has(layer));
    if (!short) return undefined;
    const left = parsed.layers.filter(layer => !own.layers.has(layer.digest));
    return {
      ...short,
      components: own.components,
      layers: left.length,
      allLayers: parsed.layers.length,
    };
  };

  return async ({ buildId, isBuilt }) => {
    if (buildId === undefined || !isBuilt) return asWhole;
    const bill = await billOf(buildId);
    if (bill === undefined) return asWhole;
    const platforms = await describe(bill);
    return (image, part) => readPart(image, part, platforms);
  };
}
