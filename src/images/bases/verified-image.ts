import { Fault } from '../../foundation/fault.ts';
import { inTurns } from '../../foundation/work.ts';
import { type Digest, isDigest } from '../../oci/digest.ts';
import {
  asObject,
  type Descriptor,
  type Document,
  documentOf,
  manifestType,
  parseJson,
  parseManifest,
  writeJson,
} from '../../oci/index.ts';
import { bareMediaType, isElsewhere, isLayerType } from '../../oci/media-type.ts';
import { formatPlatform, listPlatforms, type Platform } from '../../oci/naming.ts';
import { type ImageLeaf, imageLeaves, type LeafSource } from './image-leaves.ts';
import type { LayerProofs } from './layer-proofs.ts';

/** An image as a builder may have it: the caller has a right to all of it, and all of it is what it says. */
export interface VerifiedImage {
  /** The manifest, or an index of the verified images alone. */
  readonly root: Document;
  readonly manifests: readonly Document[];
  /** Everything in it: manifests, configs and layers. */
  readonly digests: ReadonlySet<Digest>;
  readonly layers: readonly Digest[];
  /** The unpacked digests of the layers, for each of the manifests. */
  readonly diffIds: readonly ReadonlySet<Digest>[];
}

export interface ImageToVerify extends LeafSource {
  readonly root: Document;
  /** The platforms for which a builder may choose images of it. */
  readonly platforms: readonly Platform[];
  /** Returns true for content that is here for this image. */
  readonly owns: (digest: Digest) => boolean;
  /**
   * Returns the unpacked digest of a layer that this server has made, which needs no proof; undefined for every other layer. Default:
   * it has made none.
   */
  readonly made?: ((digest: Digest) => Digest | undefined) | undefined;
}

/**
 * Verifies an image before a builder sees it. Builders take the digests in a config for those of the layers, and give a
 * layer to everybody who names it. Throws a {@link Fault} that names the layer; its message continues a sentence about the
 * image.
 *
 * @param onRead called once when a layer has to be read
 */
export type VerifyImage = (
  image: ImageToVerify,
  signal: AbortSignal,
  onRead: () => void,
) => Promise<VerifiedImage>;

const layersAtOnce = 4;
/** The most that images have: far more than engines support. */
const mostLayers = 500;

export function createVerifyImage(proofs: LayerProofs): VerifyImage {
  /** Verifies the layers of one image. */
  const verifyLeaf = async (
    { access, owns, made = () => undefined }: ImageToVerify,
    { manifest, config }: ImageLeaf,
    signal: AbortSignal,
    onRead: () => void,
  ): Promise<void> => {
    const diffIds = diffIdsIn(config);
    const { layers } = manifest;
    if (layers.length !== diffIds.length || layers.length > mostLayers) {
      throw otherCount(layers.length, diffIds.length);
    }
    const parts = [
      { layer: manifest.config, called: 'the config', diffId: undefined },
      ...layers.map((layer, index) => {
        const called = `layer ${index + 1} (${layer.digest})`;
        requireLayer(layer, called);
        return { layer, called, diffId: diffIds[index] };
      }),
    ];
    await inTurns(layersAtOnce, parts, async ({ layer, called, diffId }) => {
      const one = { access, layer, name: called, isOwn: owns(layer.digest) };
      if (!one.isOwn) await proofs.show(one, signal);
      if (diffId === undefined) return;
      const known = one.isOwn ? made(layer.digest as Digest) : undefined;
      const found = known ?? (await proofs.unpacked(one, signal, onRead));
      if (found !== diffId) throw otherContent(called, diffId, found);
    });
  };

  return async (image, signal, onRead) => {
    const leaves = await imageLeaves(image, image.root, image.platforms);
    if (leaves.length === 0) throw noImage(image);
    for (const leaf of leaves) await verifyLeaf(image, leaf, signal, onRead);
    const root = rootOf(image.root, leaves);
    const manifests = leaves.map(({ document }) => document);
    const parts = leaves.flatMap(({ manifest: { config, layers } }) => [config, ...layers]);
    const digests = [root, ...manifests, ...parts].map(({ digest }) => digest as Digest);
    const layers = leaves.flatMap(({ manifest }) => manifest.layers.map(({ digest }) => digest));
    const diffIds = leaves.map(({ config }) => new Set(diffIdsIn(config)));
    return { root, manifests, digests: new Set(digests), layers, diffIds };
  };
}

/**
 * Returns the manifest itself, or for an index a new one with the verified images alone: a builder that already has
 * another image of the index would not ask for it. The builder keeps no trace of it: it names what it has by the
 * manifests.
 */
function rootOf(root: Document, leaves: readonly ImageLeaf[]): Document {
  const [first] = leaves;
  if (first && first.entry === undefined) return root;
  const type = manifestType(root);
  const manifests = leaves.map(({ document, config, entry }) => ({
    mediaType: manifestType(document),
    digest: document.digest,
    size: document.bytes.length,
    platform: entry?.platform ?? platformIn(config),
  }));
  return documentOf(writeJson({ schemaVersion: 2, mediaType: type, manifests }), type);
}

function platformIn({ bytes }: Document) {
  const { os, architecture, variant } = parseJson(bytes, 'config');
  return { os, architecture, ...(typeof variant === 'string' ? { variant } : {}) };
}

function diffIdsIn({ bytes }: Document): readonly Digest[] {
  const rootfs = asObject(parseJson(bytes, 'config').rootfs);
  const listed = rootfs?.diff_ids ?? [];
  if (!Array.isArray(listed) || !listed.every(one => typeof one === 'string' && isDigest(one))) {
    throw unusable("its config lists no valid digests of layers at 'rootfs.diff_ids'");
  }
  return listed;
}

function requireLayer(layer: Descriptor, called: string): void {
  const type = bareMediaType(layer.mediaType) ?? '';
  if (isElsewhere(layer)) {
    throw unusable(`${called} is not in the registry but at other addresses`);
  }
  if (!isLayerType(type) || type.includes('encrypted')) {
    const shown = JSON.stringify(layer.mediaType.slice(0, 100));
    throw unusable(`${called} has the type ${shown}, which builders cannot unpack`);
  }
}

function unusable(why: string): Fault {
  const message = `${why}. Push the image again, or use another`;
  return new Fault('bad-request', message, { phase: 'build' });
}

function otherCount(layers: number, diffIds: number): Fault {
  return unusable(
    `its manifest has ${layers} layers, and its config ${diffIds}; at most ${mostLayers} are allowed`,
  );
}

function otherContent(called: string, claimed: Digest, found: Digest): Fault {
  return unusable(`its config says that ${called} unpacks to ${claimed}, but it is ${found}`);
}

function noImage({ root, platforms }: ImageToVerify): Fault {
  const manifest = parseManifest(root);
  const offered = manifest.kind === 'index' ? listPlatforms(manifest.manifests) : 'none';
  const wanted = platforms.map(formatPlatform).join(' and ');
  return new Fault('bad-request', `it has no image for ${wanted}, only for: ${offered}`, {
    phase: 'build',
  });
}
