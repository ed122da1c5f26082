import type { Descriptor } from './descriptor.ts';
import { type Digest, digestOf } from './digest.ts';
import { type Document, documentOf } from './manifest.ts';
import { mediaTypes } from './media-type.ts';

/** A file about an image, as its referrer has it. */
export interface ArtifactFile {
  /** Type of the artifact, and media type of its content. */
  readonly artifactType: string;
  readonly content: Buffer;
  /** Digest of the content, where it is known. */
  readonly digest?: Digest;
  /** File name that a client uses. */
  readonly title: string;
  /** Annotations of the manifest. */
  readonly annotations?: Readonly<Record<string, string>>;
}

/** The image that an artifact is about. */
export type Subject = Pick<Descriptor, 'mediaType' | 'digest' | 'size'>;

/** Returns an image as the subject of artifacts. */
export function subjectOf({ mediaType, digest, bytes }: Document): Subject {
  return { mediaType, digest, size: bytes.length };
}

/** An artifact whose subject is an image: its manifest, and the blobs that the manifest names, by digest. */
export interface Artifact {
  readonly manifest: Document;
  /** The manifest in a list of referrers. Source: OCI distribution specification 1.1, Listing Referrers. */
  readonly descriptor: Descriptor;
  readonly blobs: ReadonlyMap<Digest, Buffer>;
}

const emptyConfig = Buffer.from('{}');

/**
 * Returns a file as an artifact with a subject. The same file about the same subject gives the same bytes.
 * Source: OCI image specification manifest.md, Guidelines for artifact usage.
 */
export function artifactOf(subject: Subject, file: ArtifactFile): Artifact {
  const { artifactType, content, title, annotations, digest: known } = file;
  const config = { digest: digestOf(emptyConfig), size: emptyConfig.length };
  const layer = { digest: known ?? digestOf(content), size: content.length };
  const text = {
    schemaVersion: 2,
    mediaType: mediaTypes.ociManifest,
    artifactType,
    config: { mediaType: mediaTypes.ociEmpty, ...config },
    layers: [
      {
        mediaType: artifactType,
        ...layer,
        annotations: { 'org.opencontainers.image.title': title },
      },
    ],
    subject: {
      mediaType: subject.mediaType,
      digest: subject.digest,
      size: subject.size,
    },
    annotations,
  };
  const manifest = documentOf(Buffer.from(JSON.stringify(text)), mediaTypes.ociManifest);
  const { mediaType, digest, bytes } = manifest;
  return {
    manifest,
    descriptor: { mediaType, digest, size: bytes.length, artifactType, annotations },
    blobs: new Map([
      [config.digest, emptyConfig],
      [layer.digest, content],
    ]),
  };
}
