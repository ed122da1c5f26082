import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { open } from 'node:fs/promises';
import { PassThrough, pipeline } from 'node:stream';
import { createGunzip, createZstdDecompress } from 'node:zlib';
import { TarError, TarReader } from '../../../archives/index.ts';
import { ZstdFrames } from '../../../archives/zstd-frames.ts';
import { Fault } from '../../../foundation/fault.ts';
import { type Compression, compressionIn, isDamage } from '../../../images/sif/layers/index.ts';
import { createGzipWriter } from '../gzip/gzip-members.ts';
import type { BaseOrder, MadeLayer } from '../making/layer-threads.ts';
import type { PutPiece } from '../making/piece-ring.ts';
import { DistributionEntries } from './distribution-entries.ts';
import { EstargzWriter } from './estargz-writer.ts';
import { PieceBuffer } from './piece-buffer.ts';
import type { EstargzFacts } from './reform-layer.ts';
import { ZstdWriter } from './zstd-writer.ts';

const chunkSize = 256 * 1024;
/**
 * The table of 500,000 files has 175 MB, and 35 MB here. Without a limit, attributes would fill the memory of the server: no limit
 * of a thread's heap counts these bytes.
 */
const tocLimits = { bytes: 512 * 1024 * 1024, packedBytes: 64 * 1024 * 1024 };

/**
 * Writes a layer of a base image in another form: gzip or zstd with the same tar file, or eStargz with the same entries. Throws a
 * {@link Fault} that continues a sentence about the layer.
 */
export async function reformBase(order: BaseOrder, put: PutPiece): Promise<MadeLayer> {
  const { mode, level, diffId } = order;
  const pieces = new PieceBuffer(put);
  using writing = writerOf(mode, piece => pieces.add(piece), level);
  const hash = createHash('sha256');
  let bytes = 0;
  try {
    for await (const chunk of tarOf(order)) {
      bytes += chunk.length;
      if (bytes > order.maxBytes)
        throw new TarError(`unpacks to more than ${order.maxBytes} bytes`);
      hash.update(chunk);
      writing.write(chunk);
    }
    const found = `sha256:${hash.digest('hex')}`;
    if (found !== diffId) throw new TarError(`unpacks to ${found}, not to ${diffId}`);
    const made = writing.end();
    pieces.flush();
    return made ?? { tarDigest: diffId, tarBytes: bytes };
  } catch (error) {
    if (!(error instanceof TarError || isDamage(error))) throw error;
    const problem = error instanceof TarError ? error.message : 'is damaged';
    throw new Fault('bad-request', problem, { phase: 'build', cause: error });
  }
}

/** Takes the tar file of a layer. */
interface FormWriter extends Disposable {
  write(bytes: Buffer): void;
  /** Returns what is known of the layer if its tar file is another one. */
  end(): MadeLayer | undefined;
}

function writerOf(mode: BaseOrder['mode'], put: PutPiece, level: number): FormWriter {
  if (mode === 'zstd') {
    const zstd = new ZstdWriter(put, level);
    return {
      write: bytes => zstd.write(bytes),
      end: () => void zstd.end(),
      [Symbol.dispose]() {},
    };
  }
  if (mode === 'gzip') {
    const gzip = createGzipWriter(put, { level });
    return {
      write: bytes => gzip.write(bytes),
      end: () => void gzip.end(),
      [Symbol.dispose]: () => gzip[Symbol.dispose](),
    };
  }
  const writer = new EstargzWriter(put, level, tocLimits);
  const options = { withRights: true, withBlocks: true };
  const reader = new TarReader(new DistributionEntries(writer), options);
  return {
    write: bytes => reader.write(bytes),
    end() {
      reader.end();
      const { tarDigest, tarBytes, tocDigest } = writer.end();
      const facts: EstargzFacts = { tocDigest, tarBytes };
      return { tarDigest, tarBytes, about: { facts: JSON.stringify(facts) } };
    },
    [Symbol.dispose]: () => writer[Symbol.dispose](),
  };
}

/** Yields the tar file in a layer. */
async function* tarOf({ layer: { path, size }, isPlain }: BaseOrder): AsyncGenerator<Buffer> {
  if (size === 0) return;
  const compression = isPlain ? 'none' : await compressionOf(path);
  const file = createReadStream(path, { end: size - 1, highWaterMark: chunkSize });
  // The reader of the last stream receives the error.
  const ignore = () => {};
  const tar =
    compression === 'zstd'
      ? pipeline(file, new ZstdFrames(), createZstdDecompress({ chunkSize }), ignore)
      : pipeline(
          file,
          compression === 'gzip' ? createGunzip({ chunkSize }) : new PassThrough(),
          ignore,
        );
  try {
    yield* tar as AsyncIterable<Buffer>;
  } finally {
    tar.destroy();
  }
}

async function compressionOf(path: string): Promise<Compression> {
  await using file = await open(path, 'r');
  const { buffer, bytesRead } = await file.read(Buffer.alloc(4), 0, 4, 0);
  return compressionIn(buffer.subarray(0, bytesRead));
}
