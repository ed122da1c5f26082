import type { Digest } from '../../oci/digest.ts';
import {
  asObject,
  documentOf,
  type JsonObject,
  memberName,
  parseLossless,
  writeJson,
} from '../../oci/index.ts';
import { mediaTypes, ociLayerType } from '../../oci/media-type.ts';
import { OciSyntaxError } from '../../oci/naming.ts';
import { pointTo } from './augment.ts';
import type { PlatformImage } from './leave-out-layers.ts';

/** A layer with the files of another one. */
export interface ReplacingLayer {
  /** zstd only in an image of OCI: Docker's types have none for it. */
  readonly compression: 'gzip' | 'zstd';
  readonly digest: Digest;
  readonly size: number;
  readonly diffId: Digest;
  readonly annotations?: Readonly<Record<string, string>> | undefined;
}

/**
 * Returns an image with other layers in the places of some of its own. All else of it stays, also the history, whose entries are in
 * the order of the layers. Throws an {@link OciSyntaxError} for a config that does not fit its manifest.
 */
export function replaceLayers(
  { manifest, config }: PlatformImage,
  replaced: ReadonlyMap<number, ReplacingLayer>,
): PlatformImage {
  const settings = parseLossless(config.bytes, 'config');
  const rootfsName = memberName(settings, 'rootfs');
  const rootfs = asObject(settings[rootfsName]) ?? {};
  const idsName = memberName(rootfs, 'diff_ids');
  const body = parseLossless(manifest.bytes, 'manifest');
  const { [idsName]: diffIds } = rootfs;
  const { layers } = body;
  const isFitting =
    Array.isArray(diffIds) && Array.isArray(layers) && diffIds.length === layers.length;
  if (!isFitting) {
    throw new OciSyntaxError('config', 'The image has a config that does not fit its layers');
  }
  settings[rootfsName] = {
    ...rootfs,
    [idsName]: diffIds.map((id, at) => replaced.get(at)?.diffId ?? id),
  };
  const newConfig = documentOf(writeJson(settings), config.mediaType);
  body.config = pointTo(body.config, newConfig);
  body.layers = layers.map((raw, at) => {
    const layer = replaced.get(at);
    return layer ? descriptorOf(asObject(raw) ?? {}, layer) : raw;
  });
  return { manifest: documentOf(writeJson(body), manifest.mediaType), config: newConfig };
}

/** Annotations that describe the bytes of a layer. */
const ofBytes = [
  // Of lazy clients for eStargz, Nydus and OverlayBD.
  'containerd.io/snapshot/',
  // The diff ID, in which BuildKit trusts.
  'containerd.io/uncompressed',
  'io.containers.estargz.',
  'io.github.containers.zstd-chunked.',
];

function descriptorOf(
  { data: _, urls: __, annotations: given, ...raw }: JsonObject,
  { digest, size, compression, annotations }: ReplacingLayer,
): JsonObject {
  const { mediaType: type } = raw;
  const isDocker = typeof type === 'string' && type.startsWith('application/vnd.docker.');
  const kept = Object.entries(asObject(given) ?? {}).filter(
    ([name]) => !ofBytes.some(beginning => name.startsWith(beginning)),
  );
  const all = [...kept, ...Object.entries(annotations ?? {})];
  return {
    ...raw,
    mediaType: isDocker ? mediaTypes.dockerLayerGzip : ociLayerType(compression),
    digest,
    size,
    ...(all.length > 0 ? { annotations: Object.fromEntries(all) } : {}),
  };
}
