import { createReadStream } from 'node:fs';
import { open } from 'node:fs/promises';
import { pipeline, type Readable } from 'node:stream';
import { createGunzip, createZstdDecompress } from 'node:zlib';
import { type LayerFile, layerFault } from './file.ts';
import { ZstdFrames } from './zstd-frames.ts';

/** Of a piece that is read, or unpacked; with larger ones more garbage lies around, and nothing is faster. */
const chunkSize = 64 * 1024;

/**
 * The bytes of a layer's tar file. What it is compressed with is told by its first bytes, as docker,
 * containerd and apptainer do it: media types are wrong at times.
 * Throws a {@link Fault} for data that is damaged.
 */
export async function* unpackLayer(file: LayerFile, signal: AbortSignal): AsyncGenerator<Buffer> {
  const compression = file.isTar ? 'none' : await compressionOf(file.path);
  const stream = decompressed(file.path, compression, signal);
  try {
    yield* stream as AsyncIterable<Buffer>;
  } catch (error) {
    if (!/^(?:Z_|ZSTD_)/.test((error as NodeJS.ErrnoException).code ?? '')) throw error;
    const problem = `cannot be unpacked: its ${compression} data is damaged or cut short`;
    throw layerFault('bad-request', file, problem, error);
  } finally {
    stream.destroy();
  }
}

type Compression = 'gzip' | 'zstd' | 'none';

function decompressed(path: string, compression: Compression, signal: AbortSignal): Readable {
  const file = createReadStream(path, { highWaterMark: chunkSize, signal });
  // Whoever reads the last stream hears of what fails.
  const ignore = () => {};
  if (compression === 'gzip') return pipeline(file, createGunzip({ chunkSize }), ignore);
  if (compression === 'none') return file;
  return pipeline(file, new ZstdFrames(), createZstdDecompress({ chunkSize }), ignore);
}

/** The magic numbers of RFC 1952, and of RFC 8878 for frames and skippable frames. */
export async function compressionOf(path: string): Promise<Compression> {
  await using file = await open(path, 'r');
  const { buffer, bytesRead } = await file.read(Buffer.alloc(4), 0, 4, 0);
  if (bytesRead >= 2 && buffer.readUInt16BE() === 0x1f8b) return 'gzip';
  const magic = bytesRead === 4 ? buffer.readUInt32LE() : 0;
  return magic === 0xfd2fb528 || magic - (magic % 16) === 0x184d2a50 ? 'zstd' : 'none';
}
