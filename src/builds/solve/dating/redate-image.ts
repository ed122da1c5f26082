import { createReadStream } from 'node:fs';
import { pipeline } from 'node:stream/promises';
import { TarError } from '../../../archives/index.ts';
import { Fault } from '../../../foundation/fault.ts';
import { type InjectedLayer, pointTo } from '../../../images/augment/index.ts';
import { blobsOf, type MadeBlobs } from '../../../images/index.ts';
import type { Digest } from '../../../oci/digest.ts';
import {
  asObject,
  type Descriptor,
  type Document,
  documentOf,
  type ImageManifest,
  manifestType,
  mayBeImage,
  mayBeRunnable,
  parseJson,
  parseLossless,
  parseManifest,
  partsOf,
  writeJson,
} from '../../../oci/index.ts';
import type { ContentStore } from '../../../storage/content/index.ts';
import type { Access, RegistryClient } from '../../../upstream/index.ts';
import type { LayerCompression } from '../../plan/build-plan.ts';
import { localLayer } from '../local-layer.ts';
import { type ReceivedBlob, type ReceivedImage, receivedDocuments } from '../received-image.ts';
import type { KnownLayers } from './dated-layers.ts';
import { onDatingThread } from './dating-thread.ts';
import {
  buildTime,
  createLayerDater,
  formOf,
  type LayerDater,
  type LayerForm,
  type PackedLayer,
} from './redate-layer.ts';

// A thread takes 50 ms of processor time to start: as much as these bytes.
const threadBytes = 1024 * 1024;

export interface RedateDeps {
  readonly content: ContentStore;
  readonly registry: RegistryClient;
  readonly ownHost: string;
}

/** An image with the date of a build. */
export interface RedatedImage {
  readonly root: Document;
  /** All its documents, and those that were replaced. */
  readonly generated: ReadonlyMap<Digest, Document>;
  /** Its blobs in the content store that no registry has: the dated layers, and what needs no date. */
  readonly added: readonly Digest[];
}

/**
 * Sets the date of a build on everything the build has made, in all layers except those of the base image, and compresses
 * these layers. BuildKit can do this too, but leaves outdated compiled Python code. Throws a `Fault`.
 *
 * @param options the layers of possible bases, the date for the config if it changes, and the compression of the layers
 */
export type RedateImage = (
  image: UndatedImage,
  options: RedateOptions,
  log: (line: string) => void,
  signal: AbortSignal,
) => Promise<RedatedImage>;

/** An image as the builder has sent it. */
export interface UndatedImage extends Pick<Descriptor, 'digest' | 'mediaType'> {
  readonly received: Pick<ReceivedImage, 'blob'>;
  /** Locations of the layers that it did not send. */
  readonly elsewhere: ReadonlyMap<Digest, Access>;
  readonly source: Access;
  /** Layers that have got their dates before. */
  readonly known: KnownLayers;
}

export interface RedateOptions {
  /** The unpacked digests of the layers of each image that may be the base. */
  readonly bases: readonly ReadonlySet<Digest>[];
  readonly created?: string | undefined;
  readonly compression?: LayerCompression | undefined;
}

interface Run extends RedateOptions, Pick<UndatedImage, 'received' | 'known'> {
  readonly generated: Map<Digest, Document>;
  readonly added: Digest[];
  readonly blobs: MadeBlobs;
  readonly log: (line: string) => void;
  readonly signal: AbortSignal;
}

export function createRedateImage(deps: RedateDeps): RedateImage {
  const { content } = deps;

  const openLayer = async (
    layer: Descriptor,
    run: Run,
    files: AsyncDisposableStack,
  ): Promise<PackedLayer> => {
    const { size } = layer;
    const packing = packingOf(layer);
    const blob = run.received.blob(layer.digest);
    if (blob) return { ...blob, packing };
    // The builder did not send it, since the base image has the same.
    const { path } = files.use(await localLayer(content, run.blobs, layer, run.signal));
    return { size, open: () => createReadStream(path), path, packing };
  };

  /** Stores what the builder has sent and what stays as it is, such as layers with a table. */
  const keepRest = async ({ received, generated, added, signal }: Run, root: Document) => {
    const isDone = new Set<Digest>(added);
    const keep = async (digest: Digest): Promise<void> => {
      const blob = generated.has(digest) || isDone.has(digest) ? undefined : received.blob(digest);
      if (!blob) return;
      isDone.add(digest);
      added.push(digest);
      await keepBlob(content, blob, signal);
    };
    const visit = async (document: Document): Promise<void> => {
      const { blobs, manifests } = partsOf(document);
      for (const { digest } of blobs) await keep(digest);
      for (const { digest } of manifests) {
        const child = generated.get(digest);
        if (child) await visit(child);
      }
    };
    await visit(root);
  };

  /** Writes a layer with its dates to the content store. */
  const writeLayer = async (
    dater: LayerDater,
    layer: PackedLayer,
    form: LayerForm,
  ): Promise<InjectedLayer> => {
    const file = await content.ingest();
    try {
      const tarDigest = await dater.write(layer, form, piece => file.write(piece));
      const gzipSize = file.size;
      return { gzipDigest: await file.commit(), gzipSize, tarDigest };
    } catch (error) {
      await file.abort();
      throw error;
    }
  };

  /** Returns the layers with their dates, and the number of compiled files that have the date of their source. */
  const redateLayers = async (layers: readonly Descriptor[], form: LayerForm, run: Run) => {
    const { known, signal } = run;
    await using files = new AsyncDisposableStack();
    const opened = new Map<Digest, PackedLayer>();
    const open = async (layer: Descriptor): Promise<PackedLayer> => {
      const there = opened.get(layer.digest) ?? (await openLayer(layer, run, files));
      opened.set(layer.digest, there);
      return there;
    };
    const work = async (dater: LayerDater) => {
      const withPython: Descriptor[] = [];
      for (const layer of layers) {
        const hasPython = known.hasPython(layer.digest) ?? (await dater.read(await open(layer)));
        if (hasPython) withPython.push(layer);
      }
      const python = withPython.map(({ digest }) => digest);
      const othersOf = ({ digest }: Descriptor) => (python.includes(digest) ? python : []);
      const dated: (InjectedLayer | undefined)[] = [];
      for (const layer of layers) dated.push(await known.find(layer.digest, othersOf(layer)));
      const isAffected = layers.some((layer, at) => !dated[at] && python.includes(layer.digest));
      if (isAffected && !python.every(digest => opened.has(digest))) {
        await dater.restart();
        // In their order: later sources replace earlier ones.
        for (const layer of withPython) await dater.read(await open(layer));
      }
      for (const [at, layer] of layers.entries()) {
        if (dated[at]) continue;
        const made = await writeLayer(dater, await open(layer), form);
        known.note(layer.digest, othersOf(layer), made);
        dated[at] = made;
      }
      return { dated, compiled: await dater.compiled() };
    };
    const bytes = layers.reduce((sum, { digest, size }) => {
      return known.hasPython(digest) === false ? sum : sum + size;
    }, 0);
    return bytes < threadBytes ? work(createLayerDater(signal)) : onDatingThread(work, signal);
  };

  const redateManifest = async (
    document: Document,
    manifest: ImageManifest,
    run: Run,
  ): Promise<Document> => {
    const { created, compression, bases, generated, log } = run;
    const config = documentIn(generated, manifest.config);
    const own = ownLayers(manifest, config, bases);
    if (own.length === 0 && created === undefined) return document;
    const began = performance.now();
    const layers = own.map(index => manifest.layers[index] as Descriptor);
    const form = formOf(compression);
    const { dated, compiled } = await redateLayers(layers, form, run);
    const changed = new Map(own.map((index, at) => [index, dated[at] as InjectedLayer]));
    run.added.push(...[...changed.values()].map(({ gzipDigest }) => gzipDigest));
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
    const code = compiled > 0 ? `, with ${compiled} files of byte code` : '';
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
      const child = documentIn(run.generated, entry);
      const changed = await redate(child, run);
      entries.push(changed === child ? raw : pointTo(raw, changed));
    }
    if (run.added.length === 0 && run.created === undefined) return document;
    body.manifests = entries;
    const written = documentOf(writeJson(body), manifestType(document));
    run.generated.set(written.digest, written);
    return written;
  };

  return async ({ received, known, elsewhere, source, ...root }, options, log, signal) => {
    const generated = new Map(await receivedDocuments(received, root));
    const added: Digest[] = [];
    const undated = documentIn(generated, root);
    const made = { image: { root: undated, generated }, added, source, elsewhere };
    const run = {
      ...options,
      received,
      known,
      generated,
      added,
      blobs: blobsOf(made, deps),
      log,
      signal,
    };
    try {
      const redated = await redate(undated, run);
      await keepRest(run, redated);
      return { root: redated, generated, added };
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

async function keepBlob(
  content: ContentStore,
  { size, open }: ReceivedBlob,
  signal: AbortSignal,
): Promise<void> {
  const file = await content.ingest('sha256', size);
  try {
    await pipeline(
      open(),
      async (chunks: AsyncIterable<Buffer>) => {
        for await (const chunk of chunks) await file.write(chunk);
      },
      { signal },
    );
    await file.commit();
  } finally {
    await file.abort();
  }
}

function documentIn(
  documents: ReadonlyMap<Digest, Document>,
  { digest }: Pick<Descriptor, 'digest'>,
): Document {
  const found = documents.get(digest);
  if (found) return found;
  throw new Fault('unavailable', `The builder did not send ${digest}: try again`, {
    phase: 'build',
  });
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
