import { readFileSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { join } from 'node:path';
import { crc32 } from 'node:zlib';
import type { ContextEntry } from '../../../../contexts/index.ts';
import { CommandError } from '../../../command/command.ts';

const mebibyte = 1024 * 1024;
const smallestChunk = 16 * mebibyte;
// Including the packs that a large file cuts short, at most 1700: a manifest may have 2000.
const packsAtMost = 800;
// Among the files after the minimum size of a pack, one in this many ends it.
const filesToEnd = 16;
const largestPack = 4;

/**
 * Minimum bytes of a pack of small files. This is a power of two, so that a context that grows a little keeps its
 * blobs.
 */
export function grainOf(contextBytes: number): number {
  let grain = mebibyte;
  while (contextBytes / grain > packsAtMost) grain *= 2;
  return grain;
}

/** Maximum bytes of a blob. */
export function largestBlob(grain: number): number {
  return Math.max(smallestChunk, grain * (largestPack + 1));
}

/**
 * Cuts the content of a directory's files into blobs, so that a change of one file changes few of them. Large files
 * get their own blobs, in chunks. Small files are packed together. The names of files decide where a pack ends, so
 * adding or removing a file does not move other packs. Throws {@link CommandError}.
 */
export async function* cutBlobs(
  directory: string,
  entries: Iterable<ContextEntry>,
  grain: number,
): AsyncGenerator<Buffer> {
  let pack: Buffer[] = [];
  let packed = 0;
  for (const { path, kind, size } of entries) {
    if (kind !== 'file' || size === 0) continue;
    const isLarge = size >= grain;
    if (isLarge && packed > 0) {
      yield Buffer.concat(pack);
      [pack, packed] = [[], 0];
    }
    if (isLarge) {
      yield* chunksOf(join(directory, path), size, Math.max(smallestChunk, grain));
      continue;
    }
    // Small files take four times the processor time when they are read through the thread pool.
    const bytes = readFileSync(join(directory, path));
    if (bytes.length !== size) throw changed(path);
    pack.push(bytes);
    packed += size;
    const isFull =
      packed >= grain && (crc32(path) % filesToEnd === 0 || packed >= largestPack * grain);
    if (isFull) {
      yield Buffer.concat(pack);
      [pack, packed] = [[], 0];
    }
  }
  if (packed > 0) yield Buffer.concat(pack);
}

async function* chunksOf(path: string, size: number, chunk: number): AsyncGenerator<Buffer> {
  const file = await open(path);
  try {
    if ((await file.stat()).size !== size) throw changed(path);
    for (let start = 0; start < size; start += chunk) {
      const wanted = Math.min(chunk, size - start);
      const buffer = Buffer.allocUnsafe(wanted);
      let filled = 0;
      while (filled < wanted) {
        const { bytesRead } = await file.read(buffer, filled, wanted - filled, start + filled);
        if (bytesRead === 0) throw changed(path);
        filled += bytesRead;
      }
      yield buffer;
    }
  } finally {
    await file.close();
  }
}

function changed(path: string): CommandError {
  return new CommandError(`${path} changed while it was read: run the command again`);
}
