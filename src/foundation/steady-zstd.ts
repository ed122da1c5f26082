import { constants, createZstdCompress, type ZstdCompress } from 'node:zlib';

const chunkSize = 256 * 1024;

/**
 * Returns a compressor whose output depends on its input alone, for use in a pipeline. Node's own marks the last chunk
 * as the last one if the stream has ended before the chunk's turn: zstd then ends it in other bytes. With room for one
 * byte, the stream ends after the turn of each chunk.
 */
export function createSteadyZstd(level?: number): ZstdCompress {
  const params = level === undefined ? {} : { [constants.ZSTD_c_compressionLevel]: level };
  const options = { chunkSize, params, writableHighWaterMark: 1 };
  return createZstdCompress(options);
}
