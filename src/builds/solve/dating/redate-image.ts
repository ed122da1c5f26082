import { Fault } from '../../../foundation/fault.ts';
import type { InjectedLayer } from '../../../images/augment/image-change.ts';
import { pointTo } from '../../../images/augment/written-descriptor.ts';
import type { Documents } from '../../../images/documents.ts';
import { blobsOf, type MadeBlobs } from '../../../images/made-blobs.ts';
import { TarError } from '../../../images/sif/tar/tar-error.ts';
import type { Descriptor } from '../../../oci/descriptor.ts';
import type { Digest } from '../../../oci/digest.ts';
import { type Document, documentOf } from '../../../oci/document.ts';
import { asObject, parseJson, parseLossless, writeJson } from '../../../oci/json.ts';
import {
  type ImageManifest,
  manifestType,
  mayBeRunnable,
  parseManifest,
} from '../../../oci/manifest.ts';
import { mayBeImage } from '../../../oci/manifest-parts.ts';
import { drain } from '../../../storage/content/byte-source.ts';
import type { ContentStore } from '../../../storage/content/content-store.ts';
import type { LocalFile } from '../../../storage/content/scratch-file.ts';
import type { Access } from '../../../upstream/access.ts';
import type { RegistryClient } from '../../../upstream/registry-client.ts';
import type { LayerCompression } from '../../plan/build-plan.ts';
import { buildTime } from './build-time.ts';
import { type LayerForm, type PackedLayer, readLayer, redateLayer } from './redate-layer.ts';
import { Redating } from './redating.ts';

export interface RedateDeps {
  readonly content: ContentStore;
  readonly documents: Documents;
  readonly registry: RegistryClient;
  readonly ownHost: string;
}

/** An image with the date of a build. */
export interface RedatedImage {
  readonly root: Document;
  /** Documents that were written for it. They count as documents of the image's repository. */
  readonly generated: ReadonlyMap<Digest, Document>;
  /** Layers that were written for it, in the content store. */
  readonly layers: readonly InjectedLayer[];
}

/**
 * Sets the date of a build on everything the build has made, in all layers except those of the base image, and compresses
 * these layers. BuildKit can do this too, but leaves outdated compiled Python code. Throws a `Fault`.
 *
 * @param wish the layers of possible bases, the date for the config if it changes, and the compression of the layers
 */
export type RedateImage = (
  source: Access,
  root: Document,
  wish: RedateWish,
  log: (line: string) => void,
  signal: AbortSignal,
) => Promise<RedatedImage>;

export interface RedateWish {
  /** The unpacked digests of the layers of each image that may be the base. */
  readonly bases: readonly ReadonlySet<Digest>[];
  readonly created?: string | undefined;
  readonly compression?: LayerCompression | undefined;
}

interface Run extends RedateWish {
  readonly source: Access;
  readonly generated: Map<Digest, Document>;
  readonly layers: InjectedLayer[];
  readonly blobs: MadeBlobs;
  readonly log: (line: string) => void;
  readonly signal: AbortSignal;
}

export function createRedateImage(deps: RedateDeps): RedateImage {
  const { content, documents } = deps;

  /** Opens a file with a layer, until it is disposed of. */
  const openLayer = async (layer: Descriptor, { blobs, signal }: Run): Promise<LocalFile> => {
    const local = (await blobs.isKept(layer)) ? await content.lease(layer.digest) : undefined;
    if (local) return local;
    const file = await content.scratch(layer.size);
    try {
      const body = await blobs.open(layer, signal);
      await drain(body, bytes => file.write(bytes));
    } catch (error) {
      await file[Symbol.asyncDispose]();
      throw error;
    }
    return file;
  };

  const redateManifest = async (
    document: Document,
    manifest: ImageManifest,
    run: Run,
  ): Promise<Document> => {
    const { source, created, compression, bases, generated, log, signal } = run;
    const config = await documents.config(source, manifest.config);
    const own = ownLayers(manifest, config, bases);
    if (own.length === 0 && created === undefined) return document;
    const began = performance.now();
    await using files = new AsyncDisposableStack();
    const redating = new Redating();
    const packed: (PackedLayer & { readonly index: number })[] = [];
    for (const index of own) {
      const layer = manifest.layers[index] as Descriptor;
      const { path } = files.use(await openLayer(layer, run));
      const one = { index, path, packing: packingOf(layer) };
      packed.push(one);
      await readLayer(one, redating, signal);
    }
    const form = formOf(compression);
    const changed = new Map<number, InjectedLayer>();
    for (const one of packed) {
      changed.set(one.index, await redateLayer(one, form, redating, content, signal));
    }
    run.layers.push(...changed.values());
    const newConfig = documentOf(changeConfig(config.bytes, changed, created), config.mediaType);
    const body = parseLossless(document.bytes, 'manifest');
    body.config = pointTo(body.config, newConfig);
    body.layers = listOf(body.layers).map((raw, index) => {
      const layer = changed.get(index);
      if (!layer) return raw;
      const { gzipDigest: digest, gzipSize: size } = layer;
      const mediaType = typeOf(manifest.layers[index] as Descriptor, form);
      return { ...asObject(raw), mediaType, digest, size };
    });
    const written = documentOf(writeJson(body), manifestType(document));
    generated.set(newConfig.digest, newConfig);
    generated.set(written.digest, written);
    const seconds = ((performance.now() - began) / 1000).toFixed(1);
    const code = redating.compiled > 0 ? `, with ${redating.compiled} files of byte code` : '';
    log(
      `dated ${changed.size} layers ${new Date(buildTime * 1000).toISOString()}${code}, in ${seconds} s\n`,
    );
    return written;
  };

  const redate = async (document: Document, run: Run): Promise<Document> => {
    const parsed = parseManifest(document);
    if (parsed.kind === 'manifest' && mayBeRunnable(parsed)) {
      return redateManifest(document, parsed, run);
    }
    if (parsed.kind !== 'index') return document;
    const body = parseLossless(document.bytes, 'index');
    const entries: unknown[] = [];
    for (const [index, raw] of listOf(body.manifests).entries()) {
      const entry = parsed.manifests[index];
      if (!entry || !mayBeImage(entry)) {
        entries.push(raw);
        continue;
      }
      const child = await documents.manifest(run.source, entry.digest, entry.mediaType);
      const changed = await redate(child, run);
      entries.push(changed === child ? raw : pointTo(raw, changed));
    }
    if (run.generated.size === 0) return document;
    body.manifests = entries;
    const written = documentOf(writeJson(body), manifestType(document));
    run.generated.set(written.digest, written);
    return written;
  };

  return async (source, root, wish, log, signal) => {
    const generated = new Map<Digest, Document>();
    const layers: InjectedLayer[] = [];
    const blobs = blobsOf({ image: { root, generated: new Map() }, added: [], source }, deps);
    try {
      const redated = await redate(root, {
        ...wish,
        source,
        generated,
        layers,
        blobs,
        log,
        signal,
      });
      for (const document of generated.values()) await documents.receive(source, document);
      return { root: redated, generated, layers };
    } catch (error) {
      signal.throwIfAborted();
      if (!(error instanceof TarError)) throw error;
      throw new Fault('unavailable', `A layer that the builder has made ${error.message}`, {
        phase: 'build',
        cause: error,
      });
    }
  };
}

/**
 * Returns the layers that the build has made: those after the layers of its base. Any image of the build may be the
 * base of its last stage, or none.
 */
function ownLayers(
  manifest: ImageManifest,
  config: Document,
  bases: readonly ReadonlySet<Digest>[],
): number[] {
  const { rootfs } = parseJson(config.bytes, 'config');
  const diffIds = listOf(asObject(rootfs)?.diff_ids) as Digest[];
  const ofBase = bases.map(base => {
    const own = diffIds.findIndex(diffId => !base.has(diffId));
    return own === -1 ? diffIds.length : own;
  });
  const first = Math.max(0, ...ofBase);
  return [...manifest.layers.entries()].flatMap(([index, layer]) =>
    index >= first && isChangeable(layer) ? [index] : [],
  );
}

// The annotation of eStargz, whose table describes the bytes of the layer.
const tableAnnotation = 'containerd.io/snapshot/stargz/toc.digest';
// How the type of a layer ends, in the words of both families.
const packingEnd = /[.+](gzip|zstd)$/;

function isChangeable({ mediaType, annotations }: Descriptor): boolean {
  const isPlain = mediaType.replace(packingEnd, '').endsWith('tar');
  return isPlain && !Object.hasOwn(annotations ?? {}, tableAnnotation);
}

function packingOf({ mediaType }: Descriptor): PackedLayer['packing'] {
  return packingEnd.exec(mediaType)?.[1] as PackedLayer['packing'];
}

function formOf(compression: LayerCompression | undefined): LayerForm {
  // Layers with a table were made by the builder.
  if (!compression || compression.mode === 'estargz') return { mode: 'gzip' };
  const { mode, level } = compression;
  return { mode, ...(level === undefined ? {} : { level }) };
}

/** Returns the type of a layer that was compressed again. Docker has no type for zstd: `docker` has that of gzip only. */
function typeOf({ mediaType }: Descriptor, { mode }: LayerForm): string {
  const plain = mediaType.replace(packingEnd, '');
  return `${plain}${plain.startsWith('application/vnd.oci.') ? '+' : '.'}${mode}`;
}

function changeConfig(
  bytes: Buffer,
  changed: ReadonlyMap<number, InjectedLayer>,
  created: string | undefined,
): Buffer {
  const config = parseLossless(bytes, 'config');
  if (created !== undefined) config.created = created;
  const rootfs = asObject(config.rootfs) ?? {};
  const diffIds = listOf(rootfs.diff_ids).map((id, index) => changed.get(index)?.tarDigest ?? id);
  config.rootfs = { ...rootfs, diff_ids: diffIds };
  return writeJson(config);
}

function listOf(value: unknown): unknown[] {
  return Array.isArray(value) ? value : [];
}
