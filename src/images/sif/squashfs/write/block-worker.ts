import '../../../../foundation/gated-zlib.ts';
import { hash } from 'node:crypto';
import { parentPort, workerData } from 'node:worker_threads';
import type { Compression } from '../compression.ts';
import { openBlockCompressor } from './block-compressor.ts';
import { blockBytes } from './written-inodes.ts';

/** What a thread that compresses blocks gets when it starts. */
export interface BlockWorkerData {
  /** Undefined if all blocks are stored as they are. */
  readonly compression: Compression | undefined;
  /** Memory of all slots: the blocks, and what they become. */
  readonly input: Uint8Array;
  readonly output: Uint8Array;
}

/** A block to compress. */
export interface BlockOrder {
  readonly slot: number;
  readonly bytes: number;
  /** True if a block of zeros needs not be stored. */
  readonly mayBeHole: boolean;
  /** True if the digest of the block is needed. */
  readonly isHashed: boolean;
}

export interface BlockResponse {
  readonly slot: number;
  /** Bytes of the compressed block in the output; -1 if the block is stored as it is, 0 for a block of zeros. */
  readonly size: number;
  /** SHA-256, one character per byte. */
  readonly digest?: string;
}

const { compression, input, output } = workerData as BlockWorkerData;
const compress = compression && openBlockCompressor(compression, blockBytes);
const zeros = Buffer.alloc(blockBytes);

function work({ slot, bytes, mayBeHole, isHashed }: BlockOrder): BlockResponse {
  const start = slot * blockBytes;
  const block = input.subarray(start, start + bytes);
  const digest = isHashed ? { digest: hash('sha256', block, 'binary') } : {};
  if (mayBeHole && zeros.compare(block, 0, bytes, 0, bytes) === 0) {
    return { slot, size: 0, ...digest };
  }
  const size = compress?.(block, output.subarray(start, start + blockBytes)) || -1;
  return { slot, size, ...digest };
}

parentPort?.on('message', (order: BlockOrder) => parentPort?.postMessage(work(order)));
