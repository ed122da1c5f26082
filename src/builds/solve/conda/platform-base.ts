import type { BaseResolver, Documents } from '../../../images/index.ts';
import {
  type Document,
  documentOf,
  manifestType,
  parseLossless,
  parseManifest,
  writeJson,
} from '../../../oci/index.ts';
import type { Platform, Reference } from '../../../oci/naming.ts';
import type { Access } from '../../../upstream/index.ts';

/** A base image for some platforms. */
export interface PlatformBase {
  /** The image of the only platform, or an index of the images of all platforms. */
  readonly root: Document;
  /** The image of each platform, in their order. */
  readonly images: readonly Document[];
}

export interface PlatformBaseDeps {
  readonly bases: BaseResolver;
  readonly documents: Documents;
}

/** Finds a base image, without the platforms that nobody requested. Throws a {@link Fault} (400) for a missing platform. */
export async function platformBase(
  { bases, documents }: PlatformBaseDeps,
  access: Access,
  reference: Reference,
  platforms: readonly Platform[],
): Promise<PlatformBase> {
  const root = await bases.resolve(access, reference);
  const images: Document[] = [];
  for (const platform of platforms) {
    images.push(await bases.select(access, reference, root, platform));
  }
  const [only = root, ...others] = images;
  if (others.length === 0) return { root: only, images };
  const index = indexOf(root, images);
  await documents.keep(index, access);
  return { root: index, images };
}

/** Returns the index with the entries of these images alone. */
function indexOf(root: Document, images: readonly Document[]): Document {
  const body = parseLossless(root.bytes, 'index');
  const parsed = parseManifest(root);
  const entries = parsed.kind === 'index' ? parsed.manifests : [];
  const raw = Array.isArray(body.manifests) ? body.manifests : [];
  const places = images.map(({ digest }) => entries.findIndex(entry => entry.digest === digest));
  return documentOf(
    writeJson({ ...body, manifests: places.map(place => raw[place]) }),
    manifestType(root),
  );
}
