import { type Descriptor, descriptorSchema } from './descriptor.ts';
import type { Document } from './document.ts';
import { asObject, parseJson } from './json.ts';
import { type Manifest, parseManifest, requireFew } from './manifest.ts';
import { isIndexType, isManifestType } from './media-type.ts';
import { isAttestation } from './platform.ts';

/** The content that a manifest refers to. Its subject is not part of it. */
export interface ManifestParts {
  /** Config, layers and all other blobs. */
  readonly blobs: readonly Descriptor[];
  /** The manifests of an index. */
  readonly manifests: readonly Descriptor[];
}

/**
 * Returns everything that a manifest refers to. In a manifest of an unknown type, every descriptor counts as a
 * blob, so that no content it needs is removed.
 */
export function partsOf(
  document: Document,
  manifest: Manifest = parseManifest(document),
): ManifestParts {
  switch (manifest.kind) {
    case 'manifest':
      return { blobs: [manifest.config, ...manifest.layers], manifests: [] };
    case 'index':
      return { blobs: [], manifests: manifest.manifests };
    case 'opaque':
      return {
        blobs: requireFew(descriptorsIn(parseJson(document.bytes, 'manifest')), 'descriptors'),
        manifests: [],
      };
    case 'schema1':
      return { blobs: [], manifests: [] };
  }
}

/**
 * Returns true for an index entry that may be an image or an index of images. An entry of an unknown type is
 * neither, even if another entry lists the same content as an image.
 */
export function mayBeImage(entry: Descriptor): boolean {
  return !isAttestation(entry) && (isManifestType(entry.mediaType) || isIndexType(entry.mediaType));
}

function descriptorsIn(value: unknown): Descriptor[] {
  if (Array.isArray(value)) return value.flatMap(descriptorsIn);
  const object = asObject(value);
  if (!object) return [];
  // Most objects are not descriptors, and the schema is slow to reject them.
  const { success = false, data } =
    'digest' in object && 'size' in object ? descriptorSchema.safeParse(object) : {};
  if (success && data) return [data];
  return Object.entries(object).flatMap(([name, member]) =>
    name === 'subject' ? [] : descriptorsIn(member),
  );
}
