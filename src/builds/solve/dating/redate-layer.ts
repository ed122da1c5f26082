import { type Duplex, PassThrough, type Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createGunzip, createGzip, createZstdDecompress } from 'node:zlib';
import { createSteadyZstd } from '../../../foundation/steady-zstd.ts';
import type { InjectedLayer } from '../../../images/augment/image-change.ts';
import type { Digest } from '../../../oci/digest.ts';
import type { ContentStore } from '../../../storage/content/content-store.ts';
import { createFlowHash } from '../../../storage/hashing/create-flow-hash.ts';
import type { LayerCompression } from '../../plan/build-plan.ts';
import { PassingLayer, type Redating } from './redating.ts';

const chunkSize = 256 * 1024;

/** A layer before its dates are set. */
export interface PackedLayer {
  /** Bytes, compressed. */
  readonly size: number;
  /** Reads it from its beginning; each reader may change the bytes. */
  readonly open: () => Readable;
  /** Its compression; undefined for none. */
  readonly packing: 'gzip' | 'zstd' | undefined;
}

/** How to compress a layer. */
export interface LayerForm {
  readonly mode: 'gzip' | 'zstd';
  readonly level?: number;
}

/** Returns how to compress layers as requested. */
export function formOf(compression: LayerCompression | undefined): LayerForm {
  // Layers with a table were made by the builder.
  if (!compression || compression.mode === 'estargz') return { mode: 'gzip' };
  const { mode, level } = compression;
  return { mode, ...(level === undefined ? {} : { level }) };
}

// Higher levels take windows of memory that readers refuse.
const mostZstd = 19;

function unpack({ packing }: PackedLayer): Duplex {
  if (packing === undefined) return new PassThrough();
  return packing === 'zstd' ? createZstdDecompress({ chunkSize }) : createGunzip({ chunkSize });
}

function pack({ mode, level }: LayerForm) {
  if (mode === 'gzip') return createGzip({ chunkSize, ...(level === undefined ? {} : { level }) });
  return createSteadyZstd(level === undefined ? undefined : Math.min(level, mostZstd));
}

/**
 * Reads a layer, and records what later changes of the image's layers require. Returns whether it has Python code: its
 * dates and those of other layers with such code depend on each other.
 */
export async function readLayer(
  layer: PackedLayer,
  redating: Redating,
  signal: AbortSignal,
): Promise<boolean> {
  const reader = redating.reader();
  const entries = new PassingLayer(reader);
  await pipeline(
    layer.open(),
    unpack(layer),
    async (chunks: AsyncIterable<Buffer>) => {
      for await (const chunk of chunks) entries.pass(chunk);
      entries.end();
    },
    { signal },
  );
  return reader.hasPython;
}

/**
 * Writes the layer with its dates to the content store. It is compressed again even if nothing in it changes: the same
 * recipe gives the same bytes, whatever the builder still had.
 */
export async function redateLayer(
  layer: PackedLayer,
  form: LayerForm,
  redating: Redating,
  content: ContentStore,
  signal: AbortSignal,
): Promise<InjectedLayer> {
  const entries = new PassingLayer(redating.writer());
  const file = await content.ingest();
  const hash = createFlowHash('sha256', layer.size);
  const take = async (bytes: Buffer): Promise<Buffer> => {
    await hash.update(bytes);
    return bytes;
  };
  try {
    await pipeline(
      layer.open(),
      unpack(layer),
      async function* change(chunks: AsyncIterable<Buffer>) {
        for await (const chunk of chunks) yield await take(entries.pass(chunk));
        yield await take(entries.end());
      },
      pack(form),
      async (chunks: AsyncIterable<Buffer>) => {
        for await (const chunk of chunks) await file.write(chunk);
      },
      { signal },
    );
    const tarDigest = `sha256:${await hash.digest()}` as Digest;
    const gzipSize = file.size;
    return { gzipDigest: await file.commit(), gzipSize, tarDigest };
  } catch (error) {
    hash.abort();
    await file.abort();
    throw error;
  }
}
