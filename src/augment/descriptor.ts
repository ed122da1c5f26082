import type { Document } from '../oci/document.ts';
import { asObject, type JsonObject } from '../oci/json.ts';

/**
 * The descriptor made to point to a changed document. Members keep their places; `data`, which carries
 * the content itself, is kept in step, and `urls`, which say where the former content is, go: clients
 * would fetch from there first and find another digest.
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
