import type { Digest } from '../../oci/digest.ts';
import type { Document } from '../../oci/document.ts';
import { asObject, type JsonObject } from '../../oci/json.ts';

/**
 * Returns the descriptor, pointed to a changed document. Members keep their order. Updates `data`, which contains
 * the content itself. Removes `urls`, the locations of the former content: clients would fetch from there first and
 * find another digest.
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
 * Updates the annotation that names another entry of the index, if that entry was replaced. Clients look for the
 * attestations of an image by its digest. Returns the descriptor.
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
