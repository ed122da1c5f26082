import type { Digest } from '../../oci/digest.ts';
import type { Document } from '../../oci/document.ts';
import { asObject, type JsonObject } from '../../oci/json.ts';

/**
 * Returns the descriptor, pointing to a changed document. Members keep their places. `data`, which contains the
 * content itself, is updated. `urls`, which say where the former content is, are removed: clients would fetch
 * from there first and find another digest.
 * Source: OCI image specification descriptor.md.
 */
export function pointTo(descriptor: unknown, { bytes, digest }: Document): JsonObject {
  const { urls: _, ...rest } = asObject(descriptor) ?? {};
  return {
    ...rest,
    digest,
    size: bytes.length,
    ...(typeof rest.data === 'string' ? { data: bytes.toString('base64') } : {}),
  };
}

// BuildKit's attestations are entries of the index. Each names the entry that it describes.
const subjectAnnotation = 'vnd.docker.reference.digest';

/**
 * The descriptor with its annotation changed that names another entry of its index, where that entry was
 * replaced: clients look for the attestations of an image by its digest.
 * Source: BuildKit, docs/attestations/attestation-storage.md.
 *
 * @param replaced new digest by the former one
 */
export function sayAbout(descriptor: unknown, replaced: ReadonlyMap<string, Digest>): unknown {
  const entry = asObject(descriptor);
  const annotations = asObject(entry?.annotations);
  const subject = annotations?.[subjectAnnotation];
  const changed = typeof subject === 'string' ? replaced.get(subject) : undefined;
  if (changed === undefined) return descriptor;
  return { ...entry, annotations: { ...annotations, [subjectAnnotation]: changed } };
}
