import { createReadStream } from 'node:fs';
import { open } from 'node:fs/promises';
import { pipeline, type Readable } from 'node:stream';
import { createGunzip, createZstdDecompress } from 'node:zlib';
import { type LayerFile, layerFault } from './file.ts';
import { ZstdFrames } from './zstd-frames.ts';

/** Bytes per piece that is read or unpacked. Larger pieces produce more garbage and are not faster. */
const chunkSize = 64 * 1024;
/** Bytes that are read at once without compression. */
const plainSize = 128 * 1024;

/**
 * Yields the bytes of a layer's tar file: views that are valid until the next one. Detects the compression from the first bytes, as docker,
 * containerd and apptainer do: media types are sometimes wrong.
 * Throws a {@link Fault} for damaged data.
 */
export async function* unpackLayer(file: LayerFile, signal: AbortSignal): AsyncGenerator<Buffer> {
  const compression = file.isTar ? 'none' : await compressionOf(file.path);
  if (compression === 'none') return yield* plainBytes(file.path, signal);
  const stream = decompressed(file.path, compression, signal);
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

export type Compression = 'gzip' | 'zstd' | 'none';

function decompressed(path: string, compression: Compression, signal: AbortSignal): Readable {
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
