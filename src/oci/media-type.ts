/** Media types of the two families. Sources: OCI image specification media-types.md; Docker image manifest v2 schema 2. */
export const mediaTypes = {
  ociIndex: 'application/vnd.oci.image.index.v1+json',
  ociManifest: 'application/vnd.oci.image.manifest.v1+json',
  ociEmpty: 'application/vnd.oci.empty.v1+json',
  ociConfig: 'application/vnd.oci.image.config.v1+json',
  ociLayerGzip: 'application/vnd.oci.image.layer.v1.tar+gzip',
  dockerIndex: 'application/vnd.docker.distribution.manifest.list.v2+json',
  dockerManifest: 'application/vnd.docker.distribution.manifest.v2+json',
  dockerConfig: 'application/vnd.docker.container.image.v1+json',
  dockerLayerGzip: 'application/vnd.docker.image.rootfs.diff.tar.gzip',
  dockerSchema1: 'application/vnd.docker.distribution.manifest.v1+json',
  dockerSchema1Signed: 'application/vnd.docker.distribution.manifest.v1+prettyjws',
  octetStream: 'application/octet-stream',
} as const;

export type Family = 'oci' | 'docker';

/** What a registry is asked for when it is asked for a manifest: everything it may have, so that nothing is converted. */
export const manifestAccept = [
  mediaTypes.ociIndex,
  mediaTypes.ociManifest,
  mediaTypes.dockerIndex,
  mediaTypes.dockerManifest,
  mediaTypes.dockerSchema1Signed,
  mediaTypes.dockerSchema1,
  '*/*;q=0.1',
].join(', ');

// Manifests of other kinds have types of this form too; browsers take them for JSON and nothing else.
const vendorManifest = /^application\/vnd\.[a-z0-9][a-z0-9.+_-]{0,200}\+(?:json|prettyjws)$/;

/**
 * True for what may be the type of a manifest. What a manifest or its registry says may be anything,
 * such as `text/html`, which a browser would show as a page of the server that passes it on.
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

/** True for the configs that describe a runnable image; anything else makes the manifest an artifact. */
export function isImageConfigType(mediaType: string | undefined): boolean {
  return mediaType === mediaTypes.ociConfig || mediaType === mediaTypes.dockerConfig;
}

// Compressions, encryption and foreign layers are told by the rest of the name. Old Docker versions
// named layers `application/vnd.docker.container.image.rootfs.diff+x-gtar`.
const layerType =
  /^application\/vnd\.(?:oci\.image\.layer|docker\.image\.rootfs|docker\.container\.image\.rootfs)\./;

/** True for the layers of a root file system. */
export function isLayerType(mediaType: string): boolean {
  return layerType.test(mediaType);
}

// Layers that may not be distributed stay where their `urls` say.
const foreignLayer =
  /^application\/vnd\.(?:oci\.image\.layer\.nondistributable|docker\.image\.rootfs\.foreign)\./;

/** True for content that a registry need not have: it is found at the addresses that its descriptor names. */
export function isElsewhere(part: {
  mediaType: string;
  urls?: readonly string[] | null | undefined;
}): boolean {
  return foreignLayer.test(part.mediaType) || (part.urls?.length ?? 0) > 0;
}

/** The bare type of a `Content-Type` header: no parameters, lower case. */
export function bareMediaType(contentType: string | undefined): string | undefined {
  const bare = contentType?.split(';', 1)[0]?.trim().toLowerCase();
  return bare === '' ? undefined : bare;
}
