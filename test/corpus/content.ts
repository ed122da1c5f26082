import { createHash } from 'node:crypto';

/** Bytes with a media type and a digest; large content is generated for each read. */
export interface Content {
  readonly mediaType: string;
  readonly digest: string;
  readonly size: number;
  read(): Iterable<Uint8Array>;
}

export interface Descriptor {
  readonly mediaType: string;
  readonly digest: string;
  readonly size: number;
  readonly [member: string]: unknown;
}

export const mediaTypes = {
  dockerManifest: 'application/vnd.docker.distribution.manifest.v2+json',
  dockerList: 'application/vnd.docker.distribution.manifest.list.v2+json',
  dockerConfig: 'application/vnd.docker.container.image.v1+json',
  dockerLayer: 'application/vnd.docker.image.rootfs.diff.tar.gzip',
  dockerForeignLayer: 'application/vnd.docker.image.rootfs.foreign.diff.tar.gzip',
  schema1: 'application/vnd.docker.distribution.manifest.v1+prettyjws',
  ociManifest: 'application/vnd.oci.image.manifest.v1+json',
  ociIndex: 'application/vnd.oci.image.index.v1+json',
  ociConfig: 'application/vnd.oci.image.config.v1+json',
  ociLayer: 'application/vnd.oci.image.layer.v1.tar',
  ociEmpty: 'application/vnd.oci.empty.v1+json',
} as const;

export function sha256(bytes: Uint8Array | string): string {
  return `sha256:${createHash('sha256').update(bytes).digest('hex')}`;
}

export function contentOf(mediaType: string, bytes: Uint8Array | string): Content {
  const buffer = Buffer.from(bytes);
  return { mediaType, digest: sha256(buffer), size: buffer.length, read: () => [buffer] };
}

export function jsonContent(mediaType: string, value: object): Content {
  return contentOf(mediaType, JSON.stringify(value));
}

/** Content too big to be kept: `read` must give the same bytes each time. */
export function streamedContent(mediaType: string, read: () => Iterable<Uint8Array>): Content {
  const hash = createHash('sha256');
  let size = 0;
  for (const chunk of read()) {
    hash.update(chunk);
    size += chunk.length;
  }
  return { mediaType, digest: `sha256:${hash.digest('hex')}`, size, read };
}

export function bytesOf(content: Content): Buffer {
  return Buffer.concat([...content.read()]);
}

/** The descriptor of the content, with more members after the usual three. */
export function describe(content: Content, more: object = {}): Descriptor {
  const { mediaType, digest, size } = content;
  return { mediaType, digest, size, ...more };
}
