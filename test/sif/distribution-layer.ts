import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { closeSync, createReadStream, createWriteStream, openSync, readSync } from 'node:fs';
import { readFile, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Readable, Transform } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createGzip } from 'node:zlib';
import { type Content, mediaTypes } from '../corpus/content.ts';
import type { Layer } from '../corpus/layer.ts';
import { keptFolder, packagesOf, textsOf } from '../world/run-folder.ts';
import { requireCommand, requireTools, rootDirectory } from '../world/tools.ts';

const mebibyte = 1024 * 1024;

/** A layer in a file, for what is too much to be kept in memory. */
export interface FileLayer extends Layer {
  readonly path: string;
}

/** A whole Debian system, but for the largest programs, as a layer in a file. */
export function distributionLayer(): Promise<FileLayer> {
  requireTools(['bookworm']);
  const sources = [packagesOf('bookworm'), ...textsOf('../sif/distribution-layer.ts')];
  return keptLayer('distribution', sources, writeDistribution);
}

/**
 * Returns a layer that an earlier run has written, or writes it.
 *
 * @param sources all that decides about the layer, see `keptFolder`
 * @param write writes the compressed tar to a path and returns its diff ID
 */
export async function keptLayer(
  name: string,
  sources: readonly string[],
  write: (path: string) => Promise<string>,
): Promise<FileLayer> {
  const folder = await keptFolder(`${name}-layer`, sources, async into => {
    await writeFile(join(into, 'diff-id'), await write(join(into, 'layer')));
  });
  return fileLayer(join(folder, 'layer'), await readFile(join(folder, 'diff-id'), 'utf8'));
}

async function writeDistribution(path: string): Promise<string> {
  const script =
    'cd "$1" && find . -xdev ! -size +8M -print0 | sort -z | tar --no-recursion --null -T - -c';
  const tar = spawn(requireCommand('sh'), ['-c', script, 'sh', rootDirectory('bookworm')], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const ended = once(tar, 'close');
  const diffId = await writeLayer(tar.stdout, path);
  await ended;
  if (tar.exitCode !== 0) throw new Error(`tar ended with exit code ${tar.exitCode}`);
  return diffId;
}

/** Compresses a folder, whose files all belong to root in it, into a file; returns its diff ID. */
export async function writeFolderLayer(folder: string, path: string): Promise<string> {
  const options = ['-C', folder, '--numeric-owner', '--owner=0', '--group=0', '-c', '.'];
  const tar = spawn(requireCommand('tar'), options, { stdio: ['ignore', 'pipe', 'inherit'] });
  const ended = once(tar, 'close');
  const diffId = await writeLayer(tar.stdout, path);
  await ended;
  if (tar.exitCode !== 0) throw new Error(`tar ended with exit code ${tar.exitCode}`);
  return diffId;
}

/** Compresses a tar into a file; returns its diff ID. */
export async function writeLayer(
  tar: Readable | (() => Iterable<Buffer>),
  path: string,
): Promise<string> {
  const hash = createHash('sha256');
  const hashed = new Transform({
    transform(chunk, _encoding, done) {
      hash.update(chunk);
      done(null, chunk);
    },
  });
  const source = typeof tar === 'function' ? Readable.from(tar()) : tar;
  await pipeline(source, hashed, createGzip({ level: 1 }), createWriteStream(path));
  return `sha256:${hash.digest('hex')}`;
}

/** A file of a compressed tar as a layer. */
export async function fileLayer(path: string, diffId: string): Promise<FileLayer> {
  const hash = createHash('sha256');
  await pipeline(createReadStream(path), hash);
  const content: Content = {
    mediaType: `${mediaTypes.ociLayer}+gzip`,
    digest: `sha256:${hash.digest('hex')}`,
    size: (await stat(path)).size,
    read: () => readPieces(path),
  };
  return { content, diffId, path };
}

function* readPieces(path: string): Generator<Uint8Array> {
  const file = openSync(path, 'r');
  try {
    for (;;) {
      const buffer = Buffer.alloc(mebibyte);
      const size = readSync(file, buffer);
      if (size === 0) return;
      yield buffer.subarray(0, size);
    }
  } finally {
    closeSync(file);
  }
}
