import { baseLayer, noteLayer } from './base.ts';
import { mediaTypes } from './content.ts';
import { type Family, imageOf, without } from './image.ts';
import { retyped } from './layer.ts';

/** The same small system in every family and compression. */
export const busybox: Family = {
  v2s2: async () => imageOf({ kind: 'docker', layers: [await baseLayer()] }),
  oci: async () => imageOf({ layers: [await baseLayer()] }),
  /** An OCI manifest without its media type. */
  'oci-nomt': async () => imageOf({ layers: [await baseLayer()], manifest: without('mediaType') }),
  'oci-tar': async () => imageOf({ layers: [await baseLayer('amd64', 'none')] }),
  'oci-zstd': async () => imageOf({ layers: [await baseLayer('amd64', 'zstd')] }),
  /** Layers of three compressions in one image. */
  mixed: async () =>
    imageOf({
      layers: [
        await baseLayer(),
        await noteLayer('zstd', 'zstd'),
        await noteLayer('plain', 'none'),
      ],
    }),
  /** An OCI manifest over Docker's configuration and layer types. */
  mixedfamily: async () => {
    const layers = [retyped(await baseLayer(), mediaTypes.dockerLayer)];
    const docker = imageOf({ kind: 'docker', layers });
    const manifest = (usual: Record<string, unknown>) => ({
      ...usual,
      config: { ...(usual.config as object), mediaType: mediaTypes.dockerConfig },
    });
    return { ...imageOf({ layers, manifest }), blobs: docker.blobs };
  },
};
