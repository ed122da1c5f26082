import { asObject, type Document, type JsonObject } from '../../oci/index.ts';

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
