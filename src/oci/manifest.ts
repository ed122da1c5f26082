import { z } from 'zod';
import { type Descriptor, descriptorSchema, textMap } from './descriptor.ts';
import { type Digest, digestOf } from './digest.ts';
import { asObject, type JsonObject, memberName, parseJson } from './json.ts';
import {
  type Family,
  isArtifactConfigType,
  isImageConfigType,
  isIndexType,
  isLayerType,
  isManifestType,
  isSchema1Type,
  mediaTypes,
} from './media-type.ts';
import { isAttestation } from './platform.ts';
import { OciSyntaxError } from './syntax-error.ts';

const commonMembers = {
  schemaVersion: z.literal(2),
  mediaType: z.string().nullish(),
  artifactType: z.string().nullish(),
  subject: descriptorSchema.nullish(),
  // Only the list of referrers depends on annotations, so malformed ones do not make an image invalid.
  annotations: textMap.nullish().catch(undefined),
};

const manifestSchema = z.looseObject({
  ...commonMembers,
  config: descriptorSchema,
  layers: z.array(descriptorSchema).nullish(),
});

const indexSchema = z.looseObject({
  ...commonMembers,
  manifests: z.array(descriptorSchema).nullish(),
});

/** Members that manifests and indexes have in common. */
interface Described {
  readonly subject: Descriptor | undefined;
  readonly artifactType: string | undefined;
  readonly annotations: Readonly<Record<string, string>> | undefined;
}

/** Source: OCI image specification manifest.md; Docker image manifest v2 schema 2. */
export interface ImageManifest extends Described {
  readonly kind: 'manifest';
  readonly config: Descriptor;
  readonly layers: readonly Descriptor[];
}

/** Source: OCI image specification image-index.md; Docker manifest list. */
export interface ImageIndex extends Described {
  readonly kind: 'index';
  readonly manifests: readonly Descriptor[];
}

/** A manifest of any other type. */
export interface OpaqueManifest {
  readonly kind: 'opaque';
}

/** A Docker schema 1 manifest. It has its own kind so that callers can reject it with a clear message. */
export interface Schema1Manifest {
  readonly kind: 'schema1';
}

export type Manifest = ImageManifest | ImageIndex | OpaqueManifest | Schema1Manifest;

/**
 * Reads a manifest or index. The document's `mediaType` member decides its kind. If that is absent, which OCI
 * allows, the media type it was served with decides, then its members.
 * Throws {@link OciSyntaxError} when the document violates the schema of its kind.
 */
export function parseManifest(document: Document): Manifest {
  if (isSchema1Type(document.mediaType)) return { kind: 'schema1' };
  const body = parseJson(document.bytes, 'manifest');
  if (body.schemaVersion === 1) return { kind: 'schema1' };
  const type = typeOf(body, document.mediaType);
  if (isIndexType(type)) {
    requireFew(body.manifests, 'manifests');
    const index = checkedShape(indexSchema, body, 'index');
    return { kind: 'index', manifests: index.manifests ?? [], ...describedIn(index) };
  }
  if (isManifestType(type)) {
    requireFew(body.layers, 'layers');
    const manifest = checkedShape(manifestSchema, body, 'manifest');
    return {
      kind: 'manifest',
      config: manifest.config,
      layers: manifest.layers ?? [],
      ...describedIn(manifest),
    };
  }
  return { kind: 'opaque' };
}

// Each part is looked up in a repository or at a registry.
const maxParts = 2000;

/** Returns the list. Throws {@link OciSyntaxError} when it is longer than that of any real image or index. */
function requireFew<T>(list: T, what: string): T {
  if (!Array.isArray(list) || list.length <= maxParts) return list;
  throw new OciSyntaxError(
    'manifest',
    `The manifest has ${list.length} ${what}, at most ${maxParts} are allowed`,
  );
}

function describedIn({
  subject,
  artifactType,
  annotations,
}: z.infer<typeof indexSchema>): Described {
  return {
    subject: subject ?? undefined,
    artifactType: artifactType || undefined,
    annotations: annotations ?? undefined,
  };
}

// A document never changes, and every pull needs its type.
const knownTypes = new WeakMap<Document, string>();

/** Returns the media type of a document: its own `mediaType`, else the type it was served with, else by its members. */
export function manifestType(document: Document): string {
  const known = knownTypes.get(document);
  if (known !== undefined) return known;
  const type = isSchema1Type(document.mediaType)
    ? document.mediaType
    : typeOf(parseJson(document.bytes, 'manifest'), document.mediaType);
  knownTypes.set(document, type);
  return type;
}

function typeOf(body: JsonObject, served: string): string {
  const { mediaType, manifests, config } = body;
  if (typeof mediaType === 'string' && mediaType !== '') return mediaType;
  if (isIndexType(served) || isManifestType(served)) return served;
  if (Array.isArray(manifests)) return mediaTypes.ociIndex;
  if (asObject(config)) return mediaTypes.ociManifest;
  return served;
}

// Configs of images are smaller. A larger file of an unknown type is not read to find out what it is.
const largestUntypedConfig = 4 * 1024 * 1024;

/**
 * Returns true for a manifest that is a runnable image if its config is the config of one; false for an artifact
 * (ORAS, SIF, Helm ...). BuildKit's attestations and cosign's signatures have the config type of an image, but none of
 * their layers belongs to a file system.
 */
export function mayBeRunnable({ config, layers }: ImageManifest): boolean {
  const { mediaType, size } = config;
  if (layers.length > 0 && !layers.some(layer => isLayerType(layer.mediaType))) return false;
  return (
    isImageConfigType(mediaType) ||
    (!isArtifactConfigType(mediaType) && size <= largestUntypedConfig)
  );
}

/**
 * Returns true for a runnable image. The early images of Docker Hub have configs of other types, such as
 * `application/octet-stream`: what the config contains decides, as for Docker, podman and crane.
 */
export function isImage(manifest: ImageManifest, config: Buffer): boolean {
  if (!mayBeRunnable(manifest)) return false;
  return isImageConfigType(manifest.config.mediaType) || hasRootFs(config);
}

function hasRootFs(config: Buffer): boolean {
  try {
    const members = parseJson(config, 'config');
    return asObject(members[memberName(members, 'rootfs')]) !== undefined;
  } catch (error) {
    if (error instanceof OciSyntaxError) return false;
    throw error;
  }
}

/** Returns the family of media types that a manifest of this type uses. */
export function familyOf(mediaType: string): Family {
  return mediaType === mediaTypes.dockerManifest || mediaType === mediaTypes.dockerIndex
    ? 'docker'
    : 'oci';
}

function checkedShape<S extends z.ZodType>(schema: S, body: unknown, what: 'manifest' | 'index') {
  const result = schema.safeParse(body);
  if (result.success) return result.data;
  const issue = result.error.issues[0];
  const where = issue?.path.join('.') ?? '';
  throw new OciSyntaxError(what, `The ${what} is malformed at '${where}': ${issue?.message ?? ''}`);
}

/**
 * A manifest, index or config with its exact bytes. The bytes are the identity: they are serialised again only
 * when a member has to change.
 */
export interface Document {
  readonly bytes: Buffer;
  readonly mediaType: string;
  readonly digest: Digest;
}

/** Returns a document of these bytes and computes its digest. */
export function documentOf(bytes: Buffer, mediaType: string): Document {
  return { bytes, mediaType, digest: digestOf(bytes) };
}

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
