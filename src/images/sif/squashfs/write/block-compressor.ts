import { constants, zstdCompressSync } from 'node:zlib';
import { openDeflate } from '../../../../archives/deflate/deflate.ts';
import type { Compression } from '../compression.ts';

/**
 * Compresses a block into `target`, which has room for as many bytes as the block. Returns the bytes of the result, or
 * 0 if it would not be smaller. The same block gives the same result on every machine.
 */
export type CompressBlock = (block: Uint8Array, target: Uint8Array) => number;

/** @param mostBytes the most bytes of a block */
export function openBlockCompressor(compression: Compression, mostBytes: number): CompressBlock {
  return compression.mode === 'gzip'
    ? zlibCompressor(compression.level, mostBytes)
    : zstdCompressor(compression.level);
}

/** RFC 1950: deflate with a window of 32 KiB, and no dictionary. */
const zlibHeader = Buffer.from([0x78, 0x9c]);
const sumBytes = 4;

function zlibCompressor(level: number, mostBytes: number): CompressBlock {
  const deflate = openDeflate(level, mostBytes, mostBytes);
  const { content, stream } = deflate;
  return (block, target) => {
    content.set(block);
    const size = deflate.compress(block.length);
    const end = zlibHeader.length + size;
    if (end + sumBytes >= block.length) return 0;
    target.set(zlibHeader);
    target.set(stream.subarray(0, size), zlibHeader.length);
    const sum = adler32(content, block.length);
    for (let at = 0; at < sumBytes; at += 1) target[end + at] = sum >>> (24 - 8 * at);
    return end + sumBytes;
  };
}

const adlerBase = 65_521;
/** As many bytes can be added before a sum exceeds 31 bits. */
const adlerRun = 3800;

/** Returns the checksum of the first bytes. Source: RFC 1950, section 2.2. */
function adler32(bytes: Uint8Array, length: number): number {
  let low = 1;
  let high = 0;
  for (let at = 0; at < length; ) {
    const end = Math.min(at + adlerRun, length);
    for (; at < end; at += 1) {
      low += bytes[at] as number;
      high += low;
    }
    low %= adlerBase;
    high %= adlerBase;
  }
  return high * 65_536 + low;
}

function zstdCompressor(level: number): CompressBlock {
  const params = { [constants.ZSTD_c_compressionLevel]: level };
  return (block, target) => {
    // With the size, the window is no larger than the block: the kernel reads no larger ones.
    const packed = zstdCompressSync(block, { params, pledgedSrcSize: block.length });
    if (packed.length >= block.length) return 0;
    target.set(packed);
    return packed.length;
  };
}
