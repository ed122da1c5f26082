import type { Digest } from '../../oci/digest.ts';
import {
  asObject,
  type Descriptor,
  type Document,
  documentOf,
  familyOf,
  type ImageManifest,
  isImage,
  type JsonObject,
  manifestType,
  mayBeImage,
  parseLossless,
  parseManifest,
  writeJson,
} from '../../oci/index.ts';
import { mediaTypes, ociLayerType } from '../../oci/media-type.ts';
import { OciSyntaxError } from '../../oci/naming.ts';
import {
  architectureOf,
  changeConfig,
  changesIn,
  type ImageChange,
  isUnchanged,
  layersIn,
} from './image-config.ts';

/** The documents of a base image by digest: manifests, indexes and image configs. */
export type BaseDocuments = ReadonlyMap<Digest, Document>;

/** The image that is served instead of the base. */
export interface AugmentedImage {
  /** The manifest or index of the served name. */
  readonly root: Document;
  /** All rewritten documents by digest, including the root. */
  readonly generated: ReadonlyMap<Digest, Document>;
  /** The largest number of layers of any image that was changed; 0 when none was. */
  readonly maxLayers: number;
}

/**
 * Applies a change to an image or to every image of an index, all at once; see {@link augmentInSteps}.
 */
export function augment(
  root: Document,
  documents: BaseDocuments,
  change: ImageChange,
): AugmentedImage {
  const steps = augmentInSteps(root, documents, change);
  for (;;) {
    const { done, value } = steps.next();
    if (done) return value;
  }
}

/**
 * Applies a change to an image, or to every image of an index, one image per step, and yields the number of bytes that
 * the step wrote. Pure: the same base and change give the same bytes on every machine. Some entries do not change:
 * those that are not images (attestations, artifacts, unknown types), those for Windows if it adds layers, those that the change does not affect, and
 * those whose documents are missing from `documents`, since an index may be sparse. An attestation still names the image
 * of the base, which is what its statement is about, and no client takes it for one about the changed image.
 * Throws {@link OciSyntaxError} for a malformed document, and for Docker schema 1.
 */
export function* augmentInSteps(
  root: Document,
  documents: BaseDocuments,
  change: ImageChange,
): Generator<number, AugmentedImage> {
  let before: AugmentedImage = { root, generated: new Map(), maxLayers: 0 };
  for (const one of changesIn(change)) {
    const known = new Map([...documents, ...before.generated]);
    const { root, generated, maxLayers } = yield* augmentOnce(before.root, known, one);
    before = {
      root,
      generated: new Map([...before.generated, ...generated]),
      maxLayers: Math.max(before.maxLayers, maxLayers),
    };
  }
  return before;
}

function* augmentOnce(
  root: Document,
  documents: BaseDocuments,
  change: ImageChange,
): Generator<number, AugmentedImage> {
  const generated = new Map<Digest, Document>();
  if (isUnchanged(change)) return { root, generated, maxLayers: 0 };
  const run: Run = { documents, change, generated, seen: new Map(), maxLayers: 0 };
  const changed = (yield* augmentDocument(root, run)) ?? root;
  return { root: changed, generated, maxLayers: run.maxLayers };
}

interface Run {
  readonly documents: BaseDocuments;
  readonly change: ImageChange;
  readonly generated: Map<Digest, Document>;
  /** Results for the children seen so far. Each child is processed once, even if many indexes name it. */
  readonly seen: Map<string, Document | undefined>;
  maxLayers: number;
}

type Steps = Generator<number, Document | undefined>;

/** Returns the changed document; undefined for a document that stays as it is. */
function* augmentDocument(document: Document, run: Run): Steps {
  const manifest = parseManifest(document);
  switch (manifest.kind) {
    case 'schema1':
      throw new OciSyntaxError(
        'manifest',
        'The image has the retired Docker schema 1 format, which cannot be changed: push it again with a current docker or skopeo, and request that image',
      );
    case 'index':
      return yield* augmentIndex(document, manifest.manifests, run);
    case 'manifest': {
      const config = run.documents.get(manifest.config.digest);
      if (!config || !isImage(manifest, config.bytes)) return undefined;
      const image = changeImage(document, manifest, config.bytes, run.change);
      if (!image) return undefined;
      run.generated.set(image.config.digest, image.config);
      run.generated.set(image.manifest.digest, image.manifest);
      run.maxLayers = Math.max(run.maxLayers, image.layerCount);
      yield image.config.bytes.length + image.manifest.bytes.length;
      return image.manifest;
    }
    case 'opaque':
      return undefined;
  }
}

function* augmentIndex(index: Document, entries: readonly Descriptor[], run: Run): Steps {
  const body = parseLossless(index.bytes, 'index');
  const rawEntries = Array.isArray(body.manifests) ? body.manifests : [];
  const manifests: unknown[] = [];
  let isChanged = false;
  for (const [position, raw] of rawEntries.entries()) {
    const entry = entries[position];
    const mayChange = entry && mayBeImage(entry) && !staysForWindows(entry, run.change);
    const child = mayChange ? run.documents.get(entry.digest) : undefined;
    // Clients read a document by the type that its entry declares.
    const replacement =
      entry && child && (yield* augmentChild({ ...child, mediaType: entry.mediaType }, run));
    isChanged ||= replacement !== undefined;
    manifests.push(replacement ? pointTo(raw, replacement) : raw);
  }
  if (!isChanged) return undefined;
  body.manifests = manifests;
  const document = documentOf(writeJson(body), manifestType(index));
  run.generated.set(document.digest, document);
  yield document.bytes.length;
  return document;
}

function* augmentChild(child: Document, run: Run): Steps {
  const key = `${child.digest} ${child.mediaType}`;
  if (run.seen.has(key)) return run.seen.get(key);
  const changed = yield* augmentDocument(child, run);
  run.seen.set(key, changed);
  return changed;
}

/** A changed image: its manifest, and the config that goes with it. */
interface ChangedImage {
  readonly manifest: Document;
  readonly config: Document;
  readonly layerCount: number;
}

/**
 * Returns the image with the change applied. Keeps the family of media types, appends the layers to those of the
 * base, points the config descriptor to the new config, and names the base in annotations. Every other member of the manifest keeps its value.
 * Returns undefined if the change does not affect this image, because it or its layers are of another architecture.
 */
function changeImage(
  base: Document,
  manifest: ImageManifest,
  config: Buffer,
  change: ImageChange,
): ChangedImage | undefined {
  const architecture = architectureOf(config);
  if (change.architecture !== undefined && change.architecture !== architecture) return undefined;
  const layers = (change.layers ?? []).filter(
    layer => layer.architecture === undefined || layer.architecture === architecture,
  );
  if (isUnchanged({ ...change, layers })) return undefined;
  const type = manifestType(base);
  const newConfig = documentOf(
    changeConfig(config, change, layers, manifest.layers.length),
    manifest.config.mediaType,
  );
  const body = parseLossless(base.bytes, 'manifest');
  const isDocker = familyOf(type) === 'docker';
  body.config = pointTo(body.config, newConfig);
  if (layers.length > 0) {
    body.layers = [
      ...(Array.isArray(body.layers) ? body.layers : []),
      ...layers.map(({ gzipDigest: digest, gzipSize: size, compression, annotations }) => ({
        mediaType: isDocker ? mediaTypes.dockerLayerGzip : ociLayerType(compression),
        digest,
        size,
        // The specification of Docker's manifests has none, but lazy clients read them there as well.
        ...(annotations ? { annotations } : {}),
      })),
    ];
  }
  // Docker's manifests have no annotations. Source: OCI image specification annotations.md.
  if (change.baseName !== undefined && !isDocker) {
    body.annotations = {
      ...asObject(body.annotations),
      'org.opencontainers.image.base.digest': base.digest,
      'org.opencontainers.image.base.name': change.baseName,
    };
  }
  return {
    manifest: documentOf(writeJson(body), type),
    config: newConfig,
    layerCount: manifest.layers.length + layers.length,
  };
}

/**
 * Returns true for an image of an index that a change leaves as it is because it is for Windows: layers hold files for
 * Linux, and an image for Windows does not start with such a layer.
 */
function staysForWindows({ platform }: Pick<Descriptor, 'platform'>, change: ImageChange): boolean {
  return platform?.os === 'windows' && layersIn(change).length > 0;
}

/** Returns true for an index with an image that {@link staysForWindows}. */
export function hasImagesForWindows(base: Document, change: ImageChange): boolean {
  const manifest = parseManifest(base);
  return manifest.kind === 'index' && manifest.manifests.some(one => staysForWindows(one, change));
}

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
