import type { Digest } from '../../../oci/digest.ts';
import { type Document, documentOf } from '../../../oci/index.ts';
import { mediaTypes } from '../../../oci/media-type.ts';

/** A SIF file in a registry; size in bytes. */
interface SifLayer {
  readonly digest: Digest;
  readonly size: number;
}

export const sifLayerType = 'application/vnd.sylabs.sif.layer.v1.sif';
const sifConfigType = 'application/vnd.sylabs.sif.config.v1+json';

/** The config blob of every SIF artifact. */
export const sifConfig: Document = documentOf(Buffer.from('{}'), sifConfigType);

/**
 * Returns the manifest of a SIF file as an ORAS artifact, whose title is a file name. Its bytes, and so its
 * digest, match those that `apptainer push` writes. Old clients reject other media types.
 */
export function sifManifest(sif: SifLayer, title: string): Document {
  const manifest = {
    schemaVersion: 2,
    mediaType: mediaTypes.ociManifest,
    config: {
      mediaType: sifConfigType,
      size: sifConfig.bytes.length,
      digest: sifConfig.digest,
    },
    layers: [
      {
        mediaType: sifLayerType,
        size: sif.size,
        digest: sif.digest,
        annotations: { 'org.opencontainers.image.title': title },
      },
    ],
  };
  return documentOf(Buffer.from(goJson(manifest)), mediaTypes.ociManifest);
}

/** Returns compact JSON as Go writes it, with HTML special characters escaped. Members keep their order. */
export function goJson(value: object): string {
  return JSON.stringify(value).replace(
    /[<>&\u2028\u2029]/g,
    character => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}
