import {
  asObject,
  type Document,
  documentOf,
  familyOf,
  type ImageManifest,
  manifestType,
  parseLossless,
  writeJson,
} from '../../oci/index.ts';
import { mediaTypes } from '../../oci/media-type.ts';
import { type ImageChange, isUnchanged } from './image-change.ts';
import { architectureOf, changeConfig } from './image-config.ts';
import { pointTo } from './written-descriptor.ts';

/** A changed image: its manifest, and the config that goes with it. */
export interface ChangedImage {
  readonly manifest: Document;
  readonly config: Document;
  readonly layerCount: number;
}

/**
 * Returns the image with the change applied. Keeps the family of media types, appends the layers to those of the
 * base, points the config descriptor to the new config, and names the base in annotations. Every other member of the manifest keeps its value.
 * Returns undefined if the change does not affect this image, because it or its layers are of another architecture.
 */
export function changeImage(
  base: Document,
  manifest: ImageManifest,
  config: Buffer,
  change: ImageChange,
): ChangedImage | undefined {
  const architecture = architectureOf(config);
  if (change.architecture !== undefined && change.architecture !== architecture) return undefined;
  const layers = (change.layers ?? []).filter(
    layer => layer.architecture === undefined || layer.architecture === architecture,
  );
  if (isUnchanged({ ...change, layers })) return undefined;
  const type = manifestType(base);
  const newConfig = documentOf(
    changeConfig(config, change, layers, manifest.layers.length),
    manifest.config.mediaType,
  );
  const body = parseLossless(base.bytes, 'manifest');
  const isDocker = familyOf(type) === 'docker';
  body.config = pointTo(body.config, newConfig);
  if (layers.length > 0) {
    const mediaType = isDocker ? mediaTypes.dockerLayerGzip : mediaTypes.ociLayerGzip;
    body.layers = [
      ...(Array.isArray(body.layers) ? body.layers : []),
      ...layers.map(layer => ({ mediaType, digest: layer.gzipDigest, size: layer.gzipSize })),
    ];
  }
  // Docker's manifests have no annotations. Source: OCI image specification annotations.md.
  if (change.baseName !== undefined && !isDocker) {
    body.annotations = {
      ...asObject(body.annotations),
      'org.opencontainers.image.base.digest': base.digest,
      'org.opencontainers.image.base.name': change.baseName,
    };
  }
  return {
    manifest: documentOf(writeJson(body), type),
    config: newConfig,
    layerCount: manifest.layers.length + layers.length,
  };
}
