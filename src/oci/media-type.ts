/** Media types of the two families. Sources: OCI image specification media-types.md; Docker image manifest v2 schema 2. */
export const mediaTypes = {
  ociIndex: 'application/vnd.oci.image.index.v1+json',
  ociManifest: 'application/vnd.oci.image.manifest.v1+json',
  ociEmpty: 'application/vnd.oci.empty.v1+json',
  ociConfig: 'application/vnd.oci.image.config.v1+json',
  ociLayerGzip: 'application/vnd.oci.image.layer.v1.tar+gzip',
  ociLayerZstd: 'application/vnd.oci.image.layer.v1.tar+zstd',
  dockerIndex: 'application/vnd.docker.distribution.manifest.list.v2+json',
  dockerManifest: 'application/vnd.docker.distribution.manifest.v2+json',
  dockerConfig: 'application/vnd.docker.container.image.v1+json',
  dockerLayerGzip: 'application/vnd.docker.image.rootfs.diff.tar.gzip',
  dockerSchema1: 'application/vnd.docker.distribution.manifest.v1+json',
  dockerSchema1Signed: 'application/vnd.docker.distribution.manifest.v1+prettyjws',
  octetStream: 'application/octet-stream',
} as const;

/** Returns the type of a layer of OCI. Docker has none for zstd. */
export function ociLayerType(compression: 'gzip' | 'zstd' = 'gzip'): string {
  return compression === 'zstd' ? mediaTypes.ociLayerZstd : mediaTypes.ociLayerGzip;
}

export type Family = 'oci' | 'docker';

/** The `Accept` header of a manifest request. It lists every known type, so that the registry converts nothing. */
export const manifestAccept = [
  mediaTypes.ociIndex,
  mediaTypes.ociManifest,
  mediaTypes.dockerIndex,
  mediaTypes.dockerManifest,
  mediaTypes.dockerSchema1Signed,
  mediaTypes.dockerSchema1,
  '*/*;q=0.1',
].join(', ');

// Other kinds of manifest have types of this form too. Browsers treat all of them as JSON.
const vendorManifest = /^application\/vnd\.[a-z0-9][a-z0-9.+_-]{0,200}\+(?:json|prettyjws)$/;

/**
 * Returns true for a type that a manifest may have. A manifest or its registry can claim any type, such as
 * `text/html`, which a browser would show as a page of the server that relays it.
 */
export function isManifestLikeType(mediaType: string): boolean {
  return vendorManifest.test(mediaType);
}

export function isIndexType(mediaType: string | undefined): boolean {
  return mediaType === mediaTypes.ociIndex || mediaType === mediaTypes.dockerIndex;
}

export function isManifestType(mediaType: string | undefined): boolean {
  return mediaType === mediaTypes.ociManifest || mediaType === mediaTypes.dockerManifest;
}

export function isSchema1Type(mediaType: string | undefined): boolean {
  return mediaType === mediaTypes.dockerSchema1 || mediaType === mediaTypes.dockerSchema1Signed;
}

/** Returns true for the config of a runnable image. Of other types, some are images too: see `mayBeRunnable`. */
export function isImageConfigType(mediaType: string | undefined): boolean {
  return mediaType === mediaTypes.ociConfig || mediaType === mediaTypes.dockerConfig;
}

// A plugin of the Docker engine has a `rootfs` like an image, but no client runs it as one.
const dockerPlugin = /^application\/vnd\.docker\.plugin\./;

/** Returns true for a config that is not the config of an image, whatever it contains. */
export function isArtifactConfigType(mediaType: string): boolean {
  return mediaType === mediaTypes.ociEmpty || dockerPlugin.test(mediaType);
}

// The rest of the name says how the layer is compressed or encrypted, and whether it is foreign. Old Docker versions
// named layers `application/vnd.docker.container.image.rootfs.diff+x-gtar`.
const layerType =
  /^application\/vnd\.(?:oci\.image\.layer|docker\.image\.rootfs|docker\.container\.image\.rootfs)\./;

/** Returns true for a layer of a root file system. */
export function isLayerType(mediaType: string): boolean {
  return layerType.test(mediaType);
}

// Layers that may not be distributed stay at their `urls`.
const foreignLayer =
  /^application\/vnd\.(?:oci\.image\.layer\.nondistributable|docker\.image\.rootfs\.foreign)\./;

/** Returns true for content that a registry may lack, because its descriptor gives other addresses for it. */
export function isElsewhere(part: {
  mediaType: string;
  urls?: readonly string[] | null | undefined;
}): boolean {
  return foreignLayer.test(part.mediaType) || (part.urls?.length ?? 0) > 0;
}

/** Returns the type in a `Content-Type` header, in lower case and without parameters. */
export function bareMediaType(contentType: string | undefined): string | undefined {
  const bare = contentType?.split(';', 1)[0]?.trim().toLowerCase();
  return bare === '' ? undefined : bare;
}
