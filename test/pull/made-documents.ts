/** Manifests and indexes whose parts are only named. */
import { digestOf } from '../../src/oci/digest.ts';
import type { Document } from '../../src/oci/manifest.ts';

export const manifestType = 'application/vnd.oci.image.manifest.v1+json';
export const indexType = 'application/vnd.oci.image.index.v1+json';

export function document(mediaType: string, body: object): Document {
  const bytes = Buffer.from(JSON.stringify({ schemaVersion: 2, mediaType, ...body }));
  return { bytes, mediaType, digest: digestOf(bytes) };
}

/** Returns the descriptor of a blob with this text. */
export function part(text: string) {
  return { mediaType: 'x/y', digest: digestOf(text), size: text.length };
}

/** Returns the descriptor of a document. */
export function entry({ mediaType, digest, bytes }: Document) {
  return { mediaType, digest, size: bytes.length };
}
