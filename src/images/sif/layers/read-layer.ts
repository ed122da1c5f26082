import { createReadStream } from 'node:fs';
import { open } from 'node:fs/promises';
import { pipeline, type Readable } from 'node:stream';
import { createGunzip, createZstdDecompress } from 'node:zlib';
import { TarError, TarReader, type TarVisitor } from '../../../archives/index.ts';
import { ZstdFrames } from '../../../archives/zstd-frames.ts';
import { Fault, type FaultKind } from '../../../foundation/fault.ts';
import { bareMediaType, isLayerType } from '../../../oci/media-type.ts';

/** A layer on disk: compressed as received, or its tar file. */
export interface LayerFile {
  /** Name in messages: `layer 2 of 5`. */
  readonly name: string;
  readonly path: string;
  /** Bytes. */
  readonly size: number;
  /** True for a file that the conversion created and removes. */
  readonly isScratch: boolean;
  /** Compressed and uncompressed size in bytes; undefined for an uncompressed layer. */
  readonly packed?: { readonly size: number; readonly unpacked: number };
  /** True for a tar file, regardless of its first bytes. */
  readonly isTar?: true;
}

export type Compression = 'gzip' | 'zstd' | 'none';

/** Bytes per piece that is read or unpacked. Larger pieces produce more garbage and are not faster. */
const chunkSize = 64 * 1024;
/** Bytes that are read at once without compression. */
const plainSize = 128 * 1024;

/**
 * Reads the tar file of a layer to its end, or until `next` returns false. `next` is called after each
 * piece, when the visitor has received its entries and content.
 * Throws a {@link Fault} that names the layer when the layer cannot be read.
 */
export async function readLayer(
  file: LayerFile,
  visitor: TarVisitor,
  signal: AbortSignal,
  next: (piece: Buffer) => boolean | Promise<boolean>,
): Promise<void> {
  const reader = new TarReader(visitor);
  try {
    for await (const chunk of unpackLayer(file, signal)) {
      reader.write(chunk);
      if (!(await next(chunk))) return;
    }
    reader.end();
  } catch (error) {
    if (error instanceof TarError) throw layerFault('bad-request', file, error.message);
    throw error;
  }
}

/**
 * Throws a {@link Fault} unless a layer of this media type can be converted: it must be a tar file
 * that is part of the image. The compression is detected when the layer is read.
 *
 * @param name name of the layer in messages
 */
export function checkLayerType(mediaType: string, name: string): void {
  const type = bareMediaType(mediaType) ?? '';
  if (!isLayerType(type)) {
    const shown = JSON.stringify(mediaType.slice(0, 100));
    throw layerFault(
      'bad-request',
      { name },
      `has the type ${shown}, which is not a layer of files`,
    );
  }
  if (/\bforeign\b|\bnondistributable\b/.test(type)) {
    const problem = 'may not be distributed, and is not part of the image: use an image without it';
    throw layerFault('bad-request', { name }, problem);
  }
  if (type.includes('encrypted')) {
    throw layerFault('bad-request', { name }, 'is encrypted: use an image that is not');
  }
}

/**
 * Yields the bytes of a layer's tar file: views that are valid until the next one. Detects the compression from the first bytes, as docker,
 * containerd and apptainer do: media types are sometimes wrong.
 * Throws a {@link Fault} for damaged data.
 */
async function* unpackLayer(file: LayerFile, signal: AbortSignal): AsyncGenerator<Buffer> {
  const compression = file.isTar ? 'none' : await compressionOf(file.path);
  if (compression === 'none') return yield* plainBytes(file.path, signal);
  const stream = decompressedFile(file.path, compression, signal);
  try {
    yield* stream as AsyncIterable<Buffer>;
  } catch (error) {
    if (!isDamage(error)) throw error;
    const problem = `cannot be unpacked: its ${compression} data is damaged or cut short`;
    throw layerFault('bad-request', file, problem, error);
  } finally {
    stream.destroy();
  }
}

/** Yields the bytes of a file: views of one buffer. New ones make the garbage collector read the names of all files. */
async function* plainBytes(path: string, signal: AbortSignal): AsyncGenerator<Buffer> {
  await using file = await open(path, 'r');
  const buffer = Buffer.allocUnsafeSlow(plainSize);
  for (;;) {
    signal.throwIfAborted();
    const { bytesRead } = await file.read(buffer, 0, plainSize, null);
    if (bytesRead === 0) return;
    yield buffer.subarray(0, bytesRead);
  }
}

function decompressedFile(path: string, compression: Compression, signal: AbortSignal): Readable {
  return decompressing(createReadStream(path, { highWaterMark: chunkSize, signal }), compression);
}

/** Returns a stream of the decompressed bytes. It has the errors of both. */
export function decompressing(packed: Readable, compression: Compression): Readable {
  // The reader of the last stream receives the error.
  const ignore = () => {};
  if (compression === 'gzip') return pipeline(packed, createGunzip({ chunkSize }), ignore);
  if (compression === 'none') return packed;
  return pipeline(packed, new ZstdFrames(), createZstdDecompress({ chunkSize }), ignore);
}

/** Returns true for an error of damaged compressed data. */
export function isDamage(error: unknown): boolean {
  return /^(?:Z_|ZSTD_)/.test((error as NodeJS.ErrnoException).code ?? '');
}

/** Detects the compression of a file. */
export async function compressionOf(path: string): Promise<Compression> {
  await using file = await open(path, 'r');
  const { buffer, bytesRead } = await file.read(Buffer.alloc(4), 0, 4, 0);
  return compressionIn(buffer.subarray(0, bytesRead));
}

/** Detects the magic numbers of RFC 1952, and of RFC 8878 for frames and skippable frames, in the first four bytes. */
export function compressionIn(head: Buffer): Compression {
  if (head.length >= 2 && head.readUInt16BE() === 0x1f8b) return 'gzip';
  const magic = head.length >= 4 ? head.readUInt32LE() : 0;
  return magic === 0xfd2fb528 || magic - (magic % 16) === 0x184d2a50 ? 'zstd' : 'none';
}

/** Returns a {@link Fault} for a problem with a layer. */
export function layerFault(
  kind: FaultKind,
  { name }: Pick<LayerFile, 'name'>,
  problem: string,
  cause?: unknown,
): Fault {
  return new Fault(kind, `The image's ${name} ${problem}`, { phase: 'layer', cause });
}
