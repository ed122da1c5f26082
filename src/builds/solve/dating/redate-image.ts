import { Fault } from '../../../foundation/fault.ts';
import type { InjectedLayer } from '../../../images/augment/image-change.ts';
import { pointTo } from '../../../images/augment/written-descriptor.ts';
import type { Documents } from '../../../images/documents.ts';
import { blobsOf, type MadeBlobs } from '../../../images/made-blobs.ts';
import { TarError } from '../../../images/sif/tar/tar-error.ts';
import type { Descriptor } from '../../../oci/descriptor.ts';
import type { Digest } from '../../../oci/digest.ts';
import { type Document, documentOf } from '../../../oci/document.ts';
import { asObject, memberName, parseJson, parseLossless, writeJson } from '../../../oci/json.ts';
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
import { type LayerForm, readLayer, redateLayer } from './redate-layer.ts';
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
 * Sets the date of a build on everything the build has made, in all layers except those of the base image. BuildKit can
 * do this too, but leaves outdated compiled Python code. Throws a `Fault`.
 *
 * @param wish date for the config of the image, if it changes, and the compression of the layers
 */
export type RedateImage = (
  source: Access,
  root: Document,
  wish: RedateWish,
  log: (line: string) => void,
  signal: AbortSignal,
) => Promise<RedatedImage>;

export interface RedateWish {
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
    const { source, created, compression, generated, log, signal } = run;
    const config = await documents.config(source, manifest.config);
    const own = ownLayers(manifest, config);
    if (own.length === 0 && created === undefined) return document;
    const began = performance.now();
    await using files = new AsyncDisposableStack();
    const redating = new Redating();
    const paths: { readonly index: number; readonly path: string }[] = [];
    for (const index of own) {
      const layer = manifest.layers[index] as Descriptor;
      const { path } = files.use(await openLayer(layer, run));
      paths.push({ index, path });
      await readLayer(path, formOf(layer), redating, signal);
    }
    const changed = new Map<number, InjectedLayer>();
    for (const { index, path } of paths) {
      const form = { ...compression, ...formOf(manifest.layers[index] as Descriptor) };
      const layer = await redateLayer(path, form, redating, content, signal);
      if (layer) changed.set(index, layer);
    }
    if (changed.size === 0 && created === undefined) return document;
    run.layers.push(...changed.values());
    const newConfig = documentOf(changeConfig(config.bytes, changed, created), config.mediaType);
    const body = parseLossless(document.bytes, 'manifest');
    body.config = pointTo(body.config, newConfig);
    body.layers = listOf(body.layers).map((raw, index) => {
      const layer = changed.get(index);
      return layer ? { ...asObject(raw), digest: layer.gzipDigest, size: layer.gzipSize } : raw;
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

/** Returns the layers that the build has made: BuildKit gives their history the date of a build. */
function ownLayers(manifest: ImageManifest, config: Document): number[] {
  const body = parseJson(config.bytes, 'config');
  const history = listOf(body[memberName(body, 'history')]).map(asObject);
  return history
    .filter(entry => entry?.empty_layer !== true)
    .flatMap((entry, index) => {
      const layer = manifest.layers[index];
      const isOwn = Date.parse(String(entry?.created)) === buildTime * 1000;
      return isOwn && layer && isChangeable(layer) ? [index] : [];
    });
}

// The annotation of eStargz, whose table describes the bytes of the layer.
const tableAnnotation = 'containerd.io/snapshot/stargz/toc.digest';

function isChangeable({ mediaType, annotations }: Descriptor): boolean {
  return /[.+](?:gzip|zstd)$/.test(mediaType) && !Object.hasOwn(annotations ?? {}, tableAnnotation);
}

function formOf({ mediaType }: Descriptor): Pick<LayerForm, 'mode'> {
  return { mode: mediaType.endsWith('zstd') ? 'zstd' : 'gzip' };
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
