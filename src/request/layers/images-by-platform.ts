import { Fault } from '../../foundation/fault.ts';
import { pauseTurn } from '../../foundation/pause-turn.ts';
import { unlessAborted } from '../../foundation/work.ts';
import { estargzAnnotationsIn } from '../../images/augment/index.ts';
import { type Documents, deepestIndex, imageConfig } from '../../images/index.ts';
import { type Digest, isDigest } from '../../oci/digest.ts';
import {
  asObject,
  type Descriptor,
  type Document,
  type ImageManifest,
  type JsonObject,
  mayBeImage,
  memberName,
  parseJson,
  parseManifest,
} from '../../oci/index.ts';
import { formatPlatform, goArchitecture, type Platform } from '../../oci/naming.ts';
import type { Access } from '../../upstream/index.ts';

/** An image, or one of an index. */
export interface PlatformImage {
  /** As its config says. The entry of the index adds what the config lacks. */
  readonly platform: Platform;
  /** At most one more than {@link mostLayers}. */
  readonly layers: readonly Descriptor[];
  /** `rootfs.diff_ids` of its config; undefined where that is no list of as many digests. */
  readonly diffIds: readonly Digest[] | undefined;
}

/** Layers of all included images for one platform: Docker's classic image store supports 125 in an image. */
export const mostLayers = 125;

export interface ImagesByPlatform {
  readonly images: readonly PlatformImage[];
  /** All platforms that were seen, for messages. */
  readonly offered: string;
}

/** What may still be read for a request: all its images share it. */
export interface DocumentBudget {
  bytes: number;
  manifests: number;
}

export interface PlatformSource {
  readonly documents: Pick<Documents, 'manifest' | 'config'>;
  readonly access: Access;
  /** Returns false for entries of an index whose image is not needed. */
  readonly isNeeded: (entry: Descriptor) => boolean;
  readonly budget: DocumentBudget;
  readonly signal: AbortSignal;
}

/**
 * Reads the images of a manifest, an index, or the indexes inside it, each document once. As in
 * `images/augment`, the architecture of an image is that of its config. Throws a {@link Fault} when the documents are too
 * many or too large, and the reason of the signal.
 */
export async function imagesByPlatform(
  { documents, access, isNeeded, budget, signal }: PlatformSource,
  root: Document,
): Promise<ImagesByPlatform> {
  const images: PlatformImage[] = [];
  const offered = new Set<string>();
  // Only what is used later: a registry chooses how long the next document takes, and parsed ones are many times as large.
  const seen = new Map<string, SeenImage>();

  const load = async (size: number, document: () => Promise<Document | undefined>) => {
    signal.throwIfAborted();
    // The registry may have reported a wrong size.
    if (size > budget.bytes) throw tooMuch();
    const found = await unlessMissing(unlessAborted(document(), signal));
    budget.bytes -= found?.bytes.length ?? 0;
    if (budget.bytes < 0) throw tooMuch();
    return found;
  };

  /** Returns the image; undefined for an artifact. */
  const imageIn = async (document: Document, manifest: ImageManifest) => {
    const known = seen.get(document.digest);
    if (known) return known;
    const config = await load(manifest.config.size, () => imageConfig(documents, access, manifest));
    if (!config) return undefined;
    await pauseTurn();
    const members = parseJson(config.bytes, 'config');
    const rootfs = asObject(members[memberName(members, 'rootfs')]) ?? {};
    const diffIds = rootfs[memberName(rootfs, 'diff_ids')];
    const image = {
      layers: manifest.layers.slice(0, mostLayers + 1).map(layerIn),
      diffIds: isDigestList(diffIds) ? diffIds : undefined,
      config: platformIn(members),
    };
    seen.set(document.digest, image);
    return image;
  };

  const visit = async (document: Document, entry: Descriptor | undefined, level: number) => {
    await pauseTurn();
    signal.throwIfAborted();
    const manifest = parseManifest(document);
    if (manifest.kind === 'manifest') {
      const image = await imageIn(document, manifest);
      if (!image) return;
      const platform = platformOf(image.config, entry);
      offered.add(shown(platform));
      images.push({ platform, layers: image.layers, diffIds: image.diffIds });
    }
    if (manifest.kind !== 'index' || level === deepestIndex) return;
    for (const one of manifest.manifests.filter(mayBeImage)) {
      if (!isNeeded(one)) {
        if (one.platform) offered.add(shown(one.platform));
        continue;
      }
      budget.manifests -= 1;
      if (budget.manifests < 0) throw tooMuch();
      const child = await load(one.size, () =>
        documents.manifest(access, one.digest, one.mediaType),
      );
      if (child) await visit(child, one, level + 1);
    }
  };
  await visit(root, undefined, 0);
  const listed = [...offered].slice(0, mostListed).join(', ');
  return { images, offered: listed || 'none listed' };
}

const mostListed = 30;
const longestName = 40;

type SeenImage = Omit<PlatformImage, 'platform'> & { readonly config: Partial<Platform> };

function layerIn({ mediaType, digest, size, urls, annotations: given }: Descriptor): Descriptor {
  // Others may be long.
  const annotations = estargzAnnotationsIn(given);
  return {
    mediaType,
    digest,
    size,
    ...(urls ? { urls } : {}),
    ...(annotations ? { annotations } : {}),
  };
}

function isDigestList(value: unknown): value is readonly Digest[] {
  return (
    Array.isArray(value) &&
    value.length <= mostLayers &&
    value.every(one => typeof one === 'string' && isDigest(one))
  );
}

function platformIn(config: JsonObject): Partial<Platform> {
  const textOf = (member: 'os' | 'architecture' | 'variant') => {
    const value = config[memberName(config, member)];
    return typeof value === 'string' && value !== '' ? { [member]: value } : {};
  };
  return { ...textOf('os'), ...textOf('architecture'), ...textOf('variant') };
}

function platformOf(config: Partial<Platform>, entry: Descriptor | undefined): Platform {
  const variant = config.variant ?? entry?.platform?.variant;
  return {
    os: config.os ?? (entry?.platform?.os || 'linux'),
    architecture: goArchitecture(config.architecture ?? ''),
    ...(variant ? { variant } : {}),
  };
}

function shown({
  os,
  architecture,
  variant,
}: Pick<NonNullable<Descriptor['platform']>, 'os' | 'architecture' | 'variant'>): string {
  const platform = { os, architecture, ...(variant ? { variant } : {}) };
  return formatPlatform(platform).slice(0, longestName);
}

// An index may name images that its registry no longer has.
async function unlessMissing<T>(document: Promise<T>): Promise<T | undefined> {
  try {
    return await document;
  } catch (error) {
    if (error instanceof Fault && error.kind === 'manifest-unknown') return undefined;
    throw error;
  }
}

function tooMuch(): Fault {
  return new Fault(
    'bad-request',
    'the manifests and configs of the images are too many or too large together: include fewer images, or name images by digest',
    { phase: 'request' },
  );
}
