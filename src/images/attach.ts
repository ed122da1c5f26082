import { Fault } from '../foundation/fault.ts';
import { referrersTag } from '../oci/digest.ts';
import {
  type ArtifactFile,
  artifactOf,
  type Document,
  documentOf,
  parseManifest,
  subjectOf,
} from '../oci/index.ts';
import { mediaTypes } from '../oci/media-type.ts';
import { sourceOfBytes } from '../storage/content/byte-source.ts';
import {
  type Access,
  type PushAccess,
  type PushClient,
  pushingTo,
  type RegistryClient,
} from '../upstream/index.ts';

/**
 * Pushes an attachment to the repository of an image as a referrer. If the registry does not maintain the list of
 * referrers, adds it to the index under the fallback tag and returns that tag. Throws `Fault`.
 */
export type Attach = (
  target: Access,
  subject: Document,
  file: ArtifactFile,
  signal?: AbortSignal,
) => Promise<string | undefined>;

/** Source: OCI distribution specification 1.1, Pushing Manifests with Subject. */
export function createAttach(registry: RegistryClient, pusher: PushClient): Attach {
  const noteByTag = createNoteByTag(registry, pusher);

  return async (target, subject, file, signal) => {
    const access = pushingTo(target);
    const { manifest, blobs, descriptor } = artifactOf(subjectOf(subject), file);
    for (const [digest, bytes] of blobs) {
      const blob = { digest, size: bytes.length, open: async () => sourceOfBytes(bytes) };
      await pusher.putBlob(access, blob, signal);
    }
    const { isReferrer } = await pusher.putManifest(access, manifest.digest, manifest, signal);
    if (isReferrer) return undefined;
    return noteByTag(access, subject, descriptor, signal);
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

function json(value: object): Buffer {
  return Buffer.from(JSON.stringify(value));
}
