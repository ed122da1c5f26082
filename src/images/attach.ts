import { Fault } from '../foundation/fault.ts';
import { digestOf, referrersTag } from '../oci/digest.ts';
import { type Document, documentOf, parseManifest } from '../oci/index.ts';
import { mediaTypes } from '../oci/media-type.ts';
import { sourceOfBytes } from '../storage/content/byte-source.ts';
import {
  type Access,
  type PushAccess,
  type PushClient,
  pushingTo,
  type RegistryClient,
} from '../upstream/index.ts';

/** A file attached to an image, such as a lock file. */
export interface Attachment {
  /** Type of the artifact, and media type of its content. */
  readonly artifactType: string;
  readonly content: Buffer;
  /** File name that a client uses. */
  readonly title: string;
}

/**
 * Pushes an attachment to the repository of an image as a referrer. If the registry does not maintain the list of
 * referrers, adds it to the index under the fallback tag and returns that tag. Throws `Fault`.
 */
export type Attach = (
  target: Access,
  subject: Document,
  attachment: Attachment,
  signal?: AbortSignal,
) => Promise<string | undefined>;

const emptyConfig = Buffer.from('{}');

/** Source: OCI image specification manifest.md, Guidelines for artifact usage; distribution specification 1.1, referrers. */
export function createAttach(registry: RegistryClient, pusher: PushClient): Attach {
  const noteByTag = createNoteByTag(registry, pusher);

  return async (target, subject, { artifactType, content, title }, signal) => {
    const access = pushingTo(target);
    const config = part(mediaTypes.ociEmpty, emptyConfig);
    const layer = part(artifactType, content);
    for (const { digest, size, bytes } of [config, layer]) {
      const blob = { digest, size, open: async () => sourceOfBytes(bytes) };
      await pusher.putBlob(access, blob, signal);
    }
    const manifest = documentOf(
      json({
        schemaVersion: 2,
        mediaType: mediaTypes.ociManifest,
        artifactType,
        config: config.descriptor,
        layers: [{ ...layer.descriptor, annotations: { 'org.opencontainers.image.title': title } }],
        subject: {
          mediaType: subject.mediaType,
          digest: subject.digest,
          size: subject.bytes.length,
        },
      }),
      mediaTypes.ociManifest,
    );
    const { isReferrer } = await pusher.putManifest(access, manifest.digest, manifest, signal);
    if (isReferrer) return undefined;
    const { digest, mediaType, bytes } = manifest;
    return noteByTag(
      access,
      subject,
      { mediaType, digest, size: bytes.length, artifactType },
      signal,
    );
  };
}

/**
 * Adds a referrer to the index under the fallback tag of its subject, and returns that tag. Clients read that index when the
 * registry does not maintain the list of referrers. Throws `Fault`.
 */
export type NoteByTag = (
  access: PushAccess,
  subject: Pick<Document, 'digest'>,
  entry: ReferrerEntry,
  signal?: AbortSignal,
) => Promise<string>;

/** Source: OCI distribution specification 1.1, Referrers Tag Schema. */
export function createNoteByTag(registry: RegistryClient, pusher: PushClient): NoteByTag {
  return async (access, subject, entry, signal) => {
    const tag = referrersTag(subject.digest);
    const before = await registry.getManifest(access, tag, signal).catch(error => {
      if (error instanceof Fault && error.kind === 'manifest-unknown') return undefined;
      throw error;
    });
    const known = before ? parseManifest(before) : undefined;
    const others = known?.kind === 'index' ? known.manifests : [];
    if (others.some(({ digest }) => digest === entry.digest)) return tag;
    const index = documentOf(
      json({
        schemaVersion: 2,
        mediaType: mediaTypes.ociIndex,
        manifests: [...others, entry],
      }),
      mediaTypes.ociIndex,
    );
    await pusher.putManifest(access, tag, index, signal);
    return tag;
  };
}

interface ReferrerEntry {
  readonly mediaType: string;
  readonly digest: string;
  readonly size: number;
  readonly artifactType?: string | null | undefined;
}

function part(mediaType: string, bytes: Buffer) {
  const digest = digestOf(bytes);
  const size = bytes.length;
  return { digest, size, bytes, descriptor: { mediaType, digest, size } };
}

function json(value: object): Buffer {
  return Buffer.from(JSON.stringify(value));
}
