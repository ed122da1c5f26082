import { createHash } from 'node:crypto';
import { type Duplex, PassThrough, type Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createGunzip, createGzip, createZstdDecompress } from 'node:zlib';
import { createGzipWriter, memberBytes } from '../../../conda/layers/gzip/index.ts';
import { createSteadyZstd } from '../../../foundation/steady-zstd.ts';
import type { Digest } from '../../../oci/digest.ts';
import type { LayerCompression } from '../../plan/build-plan.ts';
import { PassingLayer, Redating } from './redating.ts';

const chunkSize = 256 * 1024;

/** A layer before its dates are set. */
export interface PackedLayer {
  /** Bytes, compressed. */
  readonly size: number;
  /** Reads it from its beginning; each reader may change the bytes. */
  readonly open: () => Readable;
  /** The file with it, if it is in one. */
  readonly path?: string | undefined;
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
  if (mode === 'gzip') return level === undefined ? gzipMembers : createGzip({ chunkSize, level });
  return createSteadyZstd(level === undefined ? undefined : Math.min(level, mostZstd));
}

/**
 * Compresses without a level of zlib: the bytes are the same on every machine, in half the time
 * ([why](../../../../docs/adr/0042-one-deflate-for-ever.md)).
 */
async function* gzipMembers(chunks: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  const members: Buffer[] = [];
  using gzip = createGzipWriter(member => members.push(member), { storesRandom: true });
  for await (const chunk of chunks) {
    for (let at = 0; at < chunk.length; at += memberBytes) {
      gzip.write(chunk.subarray(at, at + memberBytes));
      yield* members.splice(0);
    }
  }
  gzip.end();
  yield* members;
}

/** Reads layers, and writes them with their dates. All are read before the first one is written: see {@link Redating}. */
export interface LayerDater {
  /** Returns the number of compiled files that now have the date of their source. */
  compiled(): Promise<number>;
  /** Forgets the layers that were read. */
  restart(): Promise<void>;
  /**
   * Reads a layer. Returns whether it has Python code: its dates and those of other layers with such code depend on
   * each other.
   */
  read(layer: PackedLayer): Promise<boolean>;
  /**
   * Writes a layer with its dates. It is compressed again even if nothing in it changes: the same recipe gives the same
   * bytes, whatever the builder still had. Returns the digest of its tar file.
   *
   * @param put receives the layer piece by piece: views that are valid until it resolves
   */
  write(
    layer: PackedLayer,
    form: LayerForm,
    put: (piece: Uint8Array) => Promise<void> | void,
  ): Promise<Digest>;
}

/** Dates layers on this thread. */
export function createLayerDater(signal?: AbortSignal): LayerDater {
  let redating = new Redating();
  return {
    compiled: async () => redating.compiled,
    async restart() {
      redating = new Redating();
    },

    async read(layer) {
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
    },

    async write(layer, form, put) {
      const entries = new PassingLayer(redating.writer());
      const hash = createHash('sha256');
      const take = (bytes: Buffer): Buffer => {
        hash.update(bytes);
        return bytes;
      };
      await pipeline(
        layer.open(),
        unpack(layer),
        async function* change(chunks: AsyncIterable<Buffer>) {
          for await (const chunk of chunks) yield take(entries.pass(chunk));
          yield take(entries.end());
        },
        pack(form),
        async (chunks: AsyncIterable<Buffer>) => {
          for await (const chunk of chunks) await put(chunk);
        },
        { signal },
      );
      return `sha256:${hash.digest('hex')}` as Digest;
    },
  };
}
