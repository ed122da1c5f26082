import { promisify } from 'node:util';
import {
  inflate,
  inflateSync,
  type ZlibOptions,
  type ZstdOptions,
  zstdDecompress,
  zstdDecompressSync,
} from 'node:zlib';
import { Fault } from '../../../../foundation/fault.ts';
import { brokenSif } from '../../format/record.ts';

/** Decompresses blocks of up to `most` bytes. Both methods throw a `Fault` for damaged blocks and larger ones. */
export interface Decompressor {
  whole(block: Buffer, most: number): Promise<Buffer>;
  /** For small blocks. */
  now(block: Buffer, most: number): Buffer;
}

/** Compressors by their number in the format. */
const names: Readonly<Record<number, string>> = {
  1: 'gzip',
  2: 'lzma',
  3: 'lzo',
  4: 'xz',
  5: 'lz4',
  6: 'zstd',
};

const inflateBlock = promisify<Buffer, ZlibOptions, Buffer>(inflate);
const zstdBlock = promisify<Buffer, ZstdOptions, Buffer>(zstdDecompress);

/** Returns the decompressor of a squashfs. Throws a `Fault` for compression other than gzip and zstd. */
export function decompressorOf(compressor: number): Decompressor {
  const name = names[compressor];
  if (name === 'gzip') return guarded(inflateBlock, inflateSync);
  if (name === 'zstd') return guarded(zstdBlock, zstdDecompressSync);
  throw new Fault(
    'bad-request',
    `The SIF file is compressed with ${name ?? 'something unknown'}, and only gzip and zstd can be read: build it again without -comp, or with 'apptainer build --mksquashfs-args "-comp gzip"'`,
    { phase: 'build' },
  );
}

type Options = { readonly maxOutputLength: number };

function guarded(
  whole: (block: Buffer, options: Options) => Promise<Buffer>,
  now: (block: Buffer, options: Options) => Buffer,
): Decompressor {
  return {
    whole: (block, most) => whole(block, { maxOutputLength: most }).catch(damaged),
    now(block, most) {
      try {
        return now(block, { maxOutputLength: most });
      } catch (error) {
        return damaged(error);
      }
    },
  };
}

function damaged(error: unknown): never {
  const { code = '' } = error as NodeJS.ErrnoException;
  if (!/^(?:Z_|ZSTD_|ERR_BUFFER_TOO_LARGE)/.test(code)) throw error;
  brokenSif('a block of its squashfs is damaged');
}
