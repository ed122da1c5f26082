import { type Descriptor, descriptorSchema } from './descriptor.ts';
import type { Document } from './document.ts';
import { asObject, parseJson } from './json.ts';
import { type Manifest, parseManifest, requireFew } from './manifest.ts';

/** What a manifest holds by reference; its subject is not part of it. */
export interface ManifestParts {
  /** Config, layers and whatever else are blobs. */
  readonly blobs: readonly Descriptor[];
  /** The manifests of an index. */
  readonly manifests: readonly Descriptor[];
}

/**
 * Everything that a manifest refers to. In a manifest of a type that is not known every descriptor
 * counts as a blob, so that what it needs is kept.
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

function descriptorsIn(value: unknown): Descriptor[] {
  if (Array.isArray(value)) return value.flatMap(descriptorsIn);
  const object = asObject(value);
  if (!object) return [];
  // Most objects are none, which the schema takes long to say.
  const { success = false, data } =
    'digest' in object && 'size' in object ? descriptorSchema.safeParse(object) : {};
  if (success && data) return [data];
  return Object.entries(object).flatMap(([name, member]) =>
    name === 'subject' ? [] : descriptorsIn(member),
  );
}
